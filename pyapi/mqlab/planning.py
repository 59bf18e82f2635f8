"""The order of runs. Variants alternate as A B B A, so that a drift of the machine hits all of them alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqlab.errors import UsageError
from mqlab.model import Case, Experiment, Variant
from mqlab.profiles import Profile
from mqlab.records import RunSpec

__all__ = ["MAX_RUNS", "PlannedRun", "make_plan"]

MAX_RUNS = 10_000
MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run to come: its place in the order and what it is given."""

    order: int
    case: str
    variant: str
    run: int
    spec: RunSpec


def make_plan(
    experiment: Experiment, target: str, runs: int | Callable[[Case], int], seed: int, profile: Profile | None
) -> tuple[PlannedRun, ...]:
    """All runs in the order in which they are to be started; `runs` may differ from case to case.

    Run i has the seed `seed` + i in every variant, so that variants meet the same chance. Rounds come one
    after the other: when a plan is broken off, each variant has been run about as often.
    """
    counts = {case.id: runs(case) if callable(runs) else runs for case in experiment.cases}
    for count in counts.values():
        check_count("runs", count, 1, MAX_RUNS)
    check_count("seed", seed, 0, MAX_SEED - MAX_RUNS)
    values = profile.values() if profile else {}
    name = profile.name if profile else ""

    def spec(case: Case, variant: Variant, run: int) -> RunSpec:
        return RunSpec(
            case.workload, target, seed + run, dict(case.params), dict(variant.policies), name, values,
            experiment.id, case.id, variant.id, experiment.thread, case.guest, variant.patches,
            variant.fragment or (case.guest.fragment if case.guest else ""),
            case.guest_reason or variant.kernel_reason,
        )  # fmt: skip

    planned: list[PlannedRun] = []
    for run in range(max(counts.values(), default=0)):
        for case in (c for c in experiment.cases if run < counts[c.id]):
            variants = experiment.variants_of(case)
            for variant in variants if run % 2 == 0 else reversed(variants):
                planned.append(PlannedRun(len(planned), case.id, variant.id, run, spec(case, variant, run)))
    return tuple(planned)


def check_count(name: str, value: int, low: int, high: int) -> None:
    """Refuses what is no whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name}={value!r} is not allowed", f"{name} is a whole number from {low} to {high}")
