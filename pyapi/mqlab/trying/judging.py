"""Verdicts on one figure before and after, by a margin: improved, regressed, no change or inconclusive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mqlab.model import Direction
from mqlab.statistic import over_runs, within_noise

__all__ = ["Verdict", "judge", "overall"]

Verdict = Literal["improved", "regressed", "no change", "inconclusive"]

_RUNS_FOR_A_TEST = 4


def judge(
    before: Sequence[float], after: Sequence[float], direction: Direction, margin: float, deterministic: bool
) -> Verdict:
    """One value a run on each side. `margin` is the relative change that does not count.

    Deterministic sides are exact: their difference counts when it is larger than the margin, with several
    seeds only when all agree on its sign. Otherwise it takes four runs a side and a rank test.
    """
    if not before or not after:
        return "inconclusive"
    old, new = over_runs(before), over_runs(after)
    within = abs(new - old) <= margin * abs(old)
    better: Verdict = "improved" if (new < old) == (direction == "lower") else "regressed"
    if deterministic:
        pairs = list(zip(before, after, strict=False))
        if all(abs(a - b) <= margin * abs(b) for b, a in pairs):
            return "no change"
        return better if not within and len({a > b for b, a in pairs}) == 1 else "inconclusive"
    if min(len(before), len(after)) < _RUNS_FOR_A_TEST:
        return "inconclusive"
    if within:
        return "no change"
    return "inconclusive" if within_noise(before, after, deterministic) else better


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """One for all: a regression anywhere is one, then any improvement counts."""
    order: tuple[Verdict, ...] = ("regressed", "improved", "inconclusive", "no change")
    return next((verdict for verdict in order if verdict in verdicts), "inconclusive")
