"""What reproducing on real kernels would fetch, build and boot, and about how long, without doing it."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mqlab.errors import MqlabError, UnsupportedError
from mqlab.guest import KERNEL_TARGET
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.debian import cached_debian
from mqlab.kernels.debian import parse_request as parse_debian
from mqlab.kernels.plan import plan_build
from mqlab.kernels.request import parse_request
from mqlab.measuring import needed_for_rows
from mqlab.model import Experiment
from mqlab.parameters import Scalar
from mqlab.planning import PlannedRun, make_plan
from mqlab.reproducing import settable, thread_experiments
from mqlab.targets import manner_of
from mqlab.targets.guest_kernels import GuestKernels
from mqlab.targets.vm import VmTarget

__all__ = ["Forecast", "KernelToBe", "forecast"]

# Of a boot on a core of 2020, of a small kernel of our own and of a packaged one: what it takes at least, and
# what each CPU of the guest adds.
_OWN_BOOT_S: Final = (4.0, 0.6)
_PACKAGED_BOOT_S: Final = (9.0, 3.0)
_FETCH_S: Final = 60.0
# A device's life, an I/O and a second of guest's real time, in seconds of emulation.
_S_PER_DEVICE: Final = 0.025
_S_PER_IO: Final = 2e-5


@dataclass(frozen=True, slots=True)
class KernelToBe:
    """A kernel and what has to be done for it: nothing where it is there already, or cannot be had.

    A step that an earlier kernel takes as well has no seconds here.
    """

    source: str
    steps: tuple[str, ...]
    seconds: float
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Kernels, boots, and the sides of rows that will not be measured, with the reason of each."""

    kernels: tuple[KernelToBe, ...]
    boots: Mapping[str, int]
    seconds: float
    skipped: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": "mqlab.forecast/1",
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "boots": dict(self.boots),
            "seconds": round(self.seconds),
            "skipped": [{"what": what, "reason": reason} for what, reason in self.skipped],
        }

    def table(self) -> str:
        """A text for the terminal."""
        from mqlab.table import forecast_table

        return forecast_table(self)

    def __repr__(self) -> str:
        return f"<Forecast: {len(self.kernels)} kernels, {sum(self.boots.values())} boots>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


def forecast(
    ids: Sequence[str] | str | None = None,
    *,
    kernel: str | None = None,
    thread_files: str | Path | None = None,
    runs: int | None = None,
    params: Mapping[str, Scalar] | None = None,
) -> Forecast:
    """What reproduce(ids, target="vm", ...) would do."""
    experiments = thread_experiments([ids] if isinstance(ids, str) else ids)
    target = VmTarget(kernel, thread_files)
    sources: dict[str, KernelToBe] = {}
    boots: dict[str, int] = {}
    skipped: dict[str, str] = {}
    seconds = 0.0
    for experiment in experiments:
        wanted = needed_for_rows(settable(experiment, experiments, params or {}).on_kernel())
        for planned in _plan(wanted, target, runs):
            source = _source(planned, target.kernels, skipped)
            if source is None:
                continue
            if source not in sources:
                sources[source] = _kernel(source, {step for k in sources.values() for step in k.steps})
            if sources[source].refusal:
                skipped[_name(planned)] = sources[source].refusal
                continue
            boots[experiment.id] = boots.get(experiment.id, 0) + 1
            seconds += _boot_seconds(planned, source)
    building = sum(k.seconds for k in sources.values())
    together = min(target.workers, os.cpu_count() or 1)
    return Forecast(tuple(sources.values()), boots, building + seconds / together, tuple(skipped.items()))


def _plan(experiment: Experiment, target: VmTarget, runs: int | None) -> tuple[PlannedRun, ...]:
    def runs_of(case: Any) -> int:
        return manner_of(target, case).default_runs if runs is None else runs

    return make_plan(experiment, KERNEL_TARGET, runs_of, 1, None)


def _name(planned: PlannedRun) -> str:
    return f"{planned.spec.experiment}, {planned.case}, {planned.variant}"


def _source(planned: PlannedRun, kernels: GuestKernels, skipped: dict[str, str]) -> str | None:
    spec = planned.spec
    if spec.guest is None:
        skipped[_name(planned)] = spec.kernel_reason or f"the agent has no workload for {spec.workload}"
        return None
    try:
        return kernels.source_of(spec)
    except UnsupportedError as error:
        skipped[_name(planned)] = str(error)
        return None


def _kernel(source: str, taken: set[str]) -> KernelToBe:
    form = source.partition(":")[0]
    if form == "debian":
        known = cached_debian(parse_debian(source.partition(":")[2]), KernelCache())
        return KernelToBe(source, () if known else ("fetch it",), 0.0 if known else _FETCH_S)
    if form not in ("source", "tree"):
        return KernelToBe(source, (), 0.0)
    try:
        plan = plan_build(parse_request(source))
    except MqlabError as error:
        return KernelToBe(source, (), 0.0, str(error).splitlines()[0])
    seconds = sum(step.seconds for step in plan.steps if step.what not in taken)
    return KernelToBe(source, tuple(step.what for step in plan.steps), seconds)


def _boot_seconds(planned: PlannedRun, source: str) -> float:
    spec = planned.spec
    assert spec.guest is not None
    packaged = source.startswith(("debian:", "installed:"))
    fixed, a_cpu = _PACKAGED_BOOT_S if packaged else _OWN_BOOT_S
    params = spec.guest.workload_params(spec.params)
    work = (
        _S_PER_DEVICE * float(params.get("devices", 0))
        + _S_PER_IO * float(params.get("ios", 0))
        + float(params.get("duration_ms", 0)) / 1000
    )
    return fixed + a_cpu * spec.guest.cpus_for(spec.params) + work
