"""Which published rows a change of each cost of the sim moves. A cost that moves one row alone is a fudge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from mqlab.discovery import find_experiments
from mqlab.errors import UsageError
from mqlab.execution import carry_out
from mqlab.model import Experiment, RowMap
from mqlab.planning import make_plan
from mqlab.profiles import Cost, Profile
from mqlab.records import RunRecord
from mqlab.statistic import statistic
from mqlab.targets import get_target

__all__ = ["FACTOR", "Move", "Sensitivity", "sensitivities"]

FACTOR: Final = 1.1
# The sim is deterministic, so any difference is real; less than this share moves no row that anybody would
# notice.
THRESHOLD: Final = 0.001
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Move:
    """How far a row's sides and ratio moved, as shares; None where a side is not measured."""

    row: str
    before: float | None
    after: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What raising one cost by FACTOR moves. A fudge moves one measured row and no other in any thread."""

    cost: Cost
    moves: tuple[Move, ...]
    fudge: bool


def sensitivities(
    experiment: Experiment, profile: Profile, progress: Callable[[int, int, str], None] | None = None
) -> tuple[Sensitivity, ...]:
    """Raises each cost of the profile in turn, and compares each row with what it was before."""
    if not experiment.rows:
        raise UsageError(f"{experiment.id} reproduces no published rows", "see `mqlab list`")
    base = _measure(experiment, profile)
    others = [e for e in find_experiments() if e.rows and e.id != experiment.id]
    bases: dict[str, list[RunRecord]] = {}

    def base_of(other: Experiment) -> list[RunRecord]:
        if other.id not in bases:
            bases[other.id] = _measure(other, profile)
        return bases[other.id]

    found: list[Sensitivity] = []
    for done, (name, cost) in enumerate(profile.costs.items()):
        raised = profile.scaled(name, FACTOR)
        moves = _moves(experiment, base, _measure(experiment, raised))
        alone = len(_distinct(experiment, moves)) == 1 and not any(
            _moves(other, base_of(other), _measure(other, raised)) for other in others
        )
        found.append(Sensitivity(cost, moves, alone))
        if progress:
            progress(done + 1, len(profile.costs), name)
    return tuple(found)


_Values = dict[tuple[str, str], dict[str, list[float]]]


def _measure(experiment: Experiment, profile: Profile) -> list[RunRecord]:
    wanted = {(r.case, r.before) for r in experiment.rows} | {
        (r.after_case or r.case, r.after) for r in experiment.rows
    }
    with closing(get_target("sim")) as target:
        plan = make_plan(experiment, "sim", 1, _SEED, profile)
        chosen = [p for p in plan if (p.case, p.variant) in wanted]
        outcome = carry_out(chosen, target)
    if outcome.interrupted:
        raise KeyboardInterrupt
    return list(outcome.runs)


def _moves(
    experiment: Experiment, base: Sequence[RunRecord], raised: Sequence[RunRecord]
) -> tuple[Move, ...]:
    moves: list[Move] = []
    for row in experiment.rows:
        old, new = _sides(row, base), _sides(row, raised)
        before, after = _change(old[0], new[0]), _change(old[1], new[1])
        ratio = _change(_ratio(*old), _ratio(*new))
        if any(change is not None and abs(change) >= THRESHOLD for change in (before, after, ratio)):
            moves.append(Move(row.row, before, after, ratio))
    return tuple(moves)


def _sides(row: RowMap, runs: Sequence[RunRecord]) -> tuple[float | None, float | None]:
    def side(case: str, variant: str) -> float | None:
        for run in runs:
            if run.case == case and run.variant == variant and len(run.samples.get(row.metric, ())):
                return statistic(row.statistic, run.samples[row.metric])
        return None

    return side(row.case, row.before), side(row.after_case or row.case, row.after)


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before if before and after is not None else None


def _change(old: float | None, new: float | None) -> float | None:
    if old is None or new is None:
        return None
    if old == 0:
        return 0.0 if new == 0 else 1.0
    return new / old - 1


def _distinct(experiment: Experiment, moves: Sequence[Move]) -> set[tuple[str, ...]]:
    """The measurements behind the rows that moved: two boots of a cell are two rows and one measurement."""
    maps = {row.row: row for row in experiment.rows}
    chosen = [maps[move.row] for move in moves]
    return {(r.case, r.metric, r.before, r.after, r.after_case, r.statistic) for r in chosen}
