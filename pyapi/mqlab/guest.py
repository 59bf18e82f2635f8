"""How a case is done on a real kernel: in a guest, by the agent. Plain, immutable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mqlab.parameters import Scalar

__all__ = ["BASE_RELEASE", "KERNEL_TARGET", "CallRatio", "Clock", "Guest", "GuestRow"]

# The name of the target whose runs are real kernels, each booted for its run.
KERNEL_TARGET: Final = "vm"
# The release that is "before" in every thread, and that their patches are put on.
BASE_RELEASE: Final = "7.3"

# deterministic: the guest's time counts instructions, one CPU executes at a time, no emulated device.
# real: the guest's time is the host's.
Clock = Literal["deterministic", "real"]


@dataclass(frozen=True, slots=True)
class CallRatio:
    """A sum of calls over another, each function with a factor."""

    over: Mapping[str, int]
    under: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Guest:
    """The machine, the kernel and the agent's workload that stand for a case.

    `takes` are the case's parameters that are handed to the workload by their own names, `params` what it is
    given besides. `metrics` says which of the agent's samples is which metric; units that differ are
    converted, samples that are not named keep their names. Exact counts may be named there too:
    "instructions_per_op", "calls_per_op:FUNCTION" and "percent:FUNCTION" (of the instructions in all, those
    of the function itself); `ratios` are made of calls, and of the functions in `counts` the calls are kept
    as metrics of their own.

    `fragment` is the kind of kernel (base, rt, debug), `devices` are emulated ones ("virtio-scsi:queues=8")
    and demand the clock "real", as does what needs CPUs that work at once; `why_real` says which it is.
    `cpus` 0 means the case's own. `runs` is how often a side is run by default, 0 as often as the target runs
    all: a figure that hangs on chance, such as an order of completion, wants several seeds even where each is
    exact.
    """

    workload: str
    metrics: Mapping[str, str]
    params: Mapping[str, Scalar] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    ratios: Mapping[str, CallRatio] = field(default_factory=dict)
    clock: Clock = "deterministic"
    why_real: str = ""
    devices: tuple[str, ...] = ()
    fragment: str = "base"
    cpus: int = 0
    memory_mib: int = 2048
    modules: tuple[str, ...] = ()
    kernel_args: tuple[str, ...] = ()
    runs: int = 0

    def workload_params(self, case_params: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """What the agent's workload is given for a case with these parameters."""
        return {**self.params, **{name: case_params[name] for name in self.takes if name in case_params}}

    def cpus_for(self, case_params: Mapping[str, Scalar]) -> int:
        """CPUs of the guest."""
        return self.cpus or int(case_params.get("cpus", 2))

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Guest:
        """From plain data, also after a round through JSON, which knows no tuples."""
        lists = ("takes", "counts", "devices", "modules", "kernel_args")
        read: dict[str, Any] = {name: tuple(data[name]) for name in lists if name in data}
        read["ratios"] = {name: CallRatio(**ratio) for name, ratio in data.get("ratios", {}).items()}
        return Guest(**{**data, **read})


@dataclass(frozen=True, slots=True)
class GuestRow:
    """Where a published row is measured on a real kernel, as far as that differs from the sim ("": as there).

    `note` says so under the row. A row that means nothing with fewer than `host_cpus` CPUs in the machine is
    not judged there. Of the agent's notes the first that begins with `quote` is shown for each side. A
    `reason` says why no real kernel of ours measures it at all.
    """

    case: str = ""
    metric: str = ""
    before: str = ""
    after: str = ""
    statistic: str = ""
    note: str = ""
    host_cpus: int = 1
    quote: str = ""
    reason: str = ""
