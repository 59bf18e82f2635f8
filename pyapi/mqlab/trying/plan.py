"""What trying a series would fetch, build and boot, and about how long that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mqlab.kernels.plan import plan_build
from mqlab.parameters import Scalar
from mqlab.trying.cases import case_title
from mqlab.trying.series import read_series
from mqlab.trying.target import GuardedTarget
from mqlab.trying.touched import Pick, pick_for
from mqlab.trying.work import Trying

__all__ = ["TrialPlan", "plan_trial"]

_BOOT_S = 15.0


@dataclass(frozen=True)
class TrialPlan:
    """What trying a series would do."""

    picks: tuple[Pick, ...]
    builds: tuple[tuple[str, float], ...]
    boots: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """About; boots run two at a time."""
        return (
            sum(s for _, s in self.builds) + sum(n for _, n in self.boots) * _BOOT_S / GuardedTarget.workers
        )


def plan_trial(
    file: str | Path,
    commits: str = "",
    *,
    source: str = "source:7.3",
    numbers: Sequence[int] | None = None,
    config: str | Path | None = None,
    experiments: Sequence[str] | None = None,
    per_patch: bool = False,
    full: bool = False,
    runs: int | None = None,
    params: Mapping[str, Scalar] | None = None,
) -> TrialPlan:
    """What try_series() would fetch, build and boot. Raises PatchFailedError where that can be told."""
    series = read_series(file, commits, source, numbers, Path(config) if config else None)
    trying = Trying(series, pick_for(series.patches, experiments), per_patch)
    trying.prepare(dict(params or {}), full)
    builds: dict[str, float] = {}
    remarks: dict[str, None] = {}
    for fragment in trying.fragments():
        for side_numbers in trying.sides().values():
            plan = plan_build(series.request(fragment, len(side_numbers)))
            builds.update({f"{step.what} ({fragment})": step.seconds for step in plan.steps})
            remarks.update(dict.fromkeys(plan.remarks))
    sides = len(trying.sides())
    boots = []
    for experiment in trying.experiments:
        for case in experiment.cases:
            exact = case.guest is not None and case.guest.clock == "deterministic"
            boots.append((f"{experiment.id}, {case_title(case)}", sides * (runs or (1 if exact else 4))))
    return TrialPlan(tuple(trying.picks), tuple(builds.items()), tuple(boots), tuple(remarks))
