"""Devices come and go for minutes on a kernel with checkers, and the kernel says whether it found a fault."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqlab.errors import SystemCallError, TimeoutError_, UnsupportedError, UsageError
from mqlab.kernels.find import find_kernel
from mqlab.kernels.kernel import Kernel, config_value
from mqlab.planning import check_count
from mqlab.telling import tell
from mqlab.vm.accel import choose_accelerator
from mqlab.vm.boot import GuestError, GuestReport, GuestTimeoutError
from mqlab.vm.guest import GuestSetup
from mqlab.vm.initramfs import agent_path
from mqlab.vm.qemu import Machine, find_qemu
from mqlab.vm.trouble import find_troubles

__all__ = ["STRESS_SCHEMA", "StressReport", "stress"]

STRESS_SCHEMA: Final = "mqlab.stress/1"

_DEFAULT_KERNEL: Final = "source:7.3+debug"
_WORKLOAD: Final = "device_stress"
_MODULES: Final = ("ublk_drv", "null_blk")
# What each checker is called in a kernel's configuration.
_CHECKERS: Final = {
    "KASAN": "KASAN",
    "lockdep": "PROVE_LOCKING",
    "DEBUG_OBJECTS_RCU_HEAD": "DEBUG_OBJECTS_RCU_HEAD",
}
_MEMORY_MIB: Final = 4096
_BOOT_LIMIT_S: Final = 1800.0
# Of a busy machine: the guest's own time passes, and its CPUs do not get theirs.
_SLACK: Final = 3.0
# A CPU that does not get its time is no fault of the kernel's: the limits at which a kernel complains are
# raised to minutes, and the timer's check at boot is left out.
_PATIENT: Final = (
    "no_timer_check",
    "watchdog_thresh=60",
    "rcupdate.rcu_cpu_stall_timeout=300",
    "rcupdate.rcu_exp_cpu_stall_timeout=300000",
    "hung_task_timeout_secs=600",
)
# The agent's name for the time in which its jobs run.
_RUNNING: Final = "run"

Boot = Callable[[GuestSetup, Mapping[str, Any], Callable[[str], None]], GuestReport]


@dataclass(frozen=True)
class StressReport:
    """What a stress run covered, and what the kernel said.

    `covered` are counts of each kind of operation done, `checkers` those that the kernel has, `reports` the
    texts of what it found, none when it found nothing.
    """

    kernel: str
    release: str
    seconds: int
    cpus: int
    accel: str
    checkers: tuple[str, ...]
    covered: Mapping[str, int]
    reports: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.reports

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": STRESS_SCHEMA,
            "kernel": self.kernel,
            "release": self.release,
            "seconds": self.seconds,
            "cpus": self.cpus,
            "accel": self.accel,
            "checkers": list(self.checkers),
            "covered": dict(self.covered),
            "reports": list(self.reports),
            "notes": list(self.notes),
            "clean": self.clean,
        }

    def table(self) -> str:
        """A text for a commit message."""
        from mqlab.table import stress_table

        return stress_table(self)

    def __repr__(self) -> str:
        return f"<StressReport {self.release}, {self.seconds} s: {len(self.reports)} reports>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


def stress(
    kernel: str | None = None,
    *,
    seconds: int = 600,
    cpus: int = 4,
    seed: int = 1,
    say: Callable[[str], None] = tell,
    boot: Boot | None = None,
) -> StressReport:
    """Stresses a kernel in a guest, in real time, for `seconds`.

    By default it is 7.3 with KASAN, lockdep and DEBUG_OBJECTS_RCU_HEAD ($MQLAB_KERNEL overrules); a series is
    put on it as in "source:7.3+debug,FILE#1-2". Devices are created and destroyed, read from and written to,
    their schedulers and depths changed and CPUs unplugged, while others read their states. A report of the
    kernel ends the run and is in the result; a guest that fails otherwise, or before the stress begins,
    raises. Since emulation is slow, the kernel waits for minutes before it calls a CPU stuck. `boot` is for
    tests.
    """
    check_count("seconds", seconds, 1, 86_400)
    check_count("cpus", cpus, 1, 256)
    qemu, agent = find_qemu(), agent_path().read_bytes()
    source = kernel or os.environ.get("MQLAB_KERNEL") or _DEFAULT_KERNEL
    found = find_kernel(source, say=say)
    checkers = _checkers(found)
    if not checkers:
        say(f"{found.release} has no checker and will hardly report a fault; take --kernel {_DEFAULT_KERNEL}")
    accel = choose_accelerator(qemu, found.image, agent, say=say).accel
    setup = GuestSetup(
        qemu,
        Machine(
            cpus=cpus, memory_mib=_MEMORY_MIB, clock="real", seed=seed, accel=accel, kernel_args=_PATIENT
        ),
        found,
        agent,
        _MODULES,
        counting=False,
        limit_s=_BOOT_LIMIT_S + _SLACK * seconds * cpus,
        guest_limit_s=_BOOT_LIMIT_S + _SLACK * seconds,
    )
    params = {"seconds": seconds, "threads": max(12, 3 * cpus)}
    job = {"workload": _WORKLOAD, "spec": {"target": "device", "seed": seed, "params": params}}
    say(f"stressing {found.release} for {seconds} s with {cpus} CPUs")
    covered, notes, reports = _outcome(setup, job, boot or _boot)
    return StressReport(
        source, found.release, seconds, cpus, accel, checkers, covered, reports, notes
    )  # fmt: skip


def _boot(setup: GuestSetup, job: Mapping[str, Any], on_stage: Callable[[str], None]) -> GuestReport:
    return setup.boot([job], on_stage=on_stage).report


def _checkers(kernel: Kernel) -> tuple[str, ...]:
    config = kernel.config_text()
    return tuple(name for name, option in _CHECKERS.items() if config_value(config, option) == "y")


def _outcome(
    setup: GuestSetup, job: Mapping[str, Any], boot: Boot
) -> tuple[Mapping[str, int], tuple[str, ...], tuple[str, ...]]:
    """What was covered, notes, and the kernel's reports."""
    stages = [""]
    try:
        report = boot(setup, job, stages.append)
    except (GuestError, GuestTimeoutError) as error:
        reports = _distinct(error.log or error.evidence)
        if not reports or stages[-1] != _RUNNING:
            raise
        return {}, (), reports
    done = report.result["jobs"][0]
    if not done["ok"]:
        error_ = done["error"]
        kinds = {"unsupported": UnsupportedError, "usage": UsageError, "timeout": TimeoutError_}
        raise kinds.get(error_["kind"], SystemCallError)(
            f"in the guest: {error_['message']}", str(error_.get("remedy", ""))
        )
    counters = {name: int(count) for name, count in done["counters"].items()}
    return counters, (*report.notes, *done.get("notes", ())), ()


def _distinct(log: str) -> tuple[str, ...]:
    """The reports in a log, each once: a panic repeats what was said before."""
    reports: dict[str, str] = {}
    for trouble in find_troubles(log):
        reports.setdefault(trouble.text.splitlines()[0], trouble.text)
    return tuple(reports.values())
