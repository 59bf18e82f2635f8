"""One number from many samples, and one from many runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from mqlab.errors import UsageError
from mqlab.parameters import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["over_runs", "statistic", "within_noise"]

_STATISTICS: Final[dict[str, Callable[[NDArray[np.float64]], float]]] = {
    "p50": lambda v: float(np.percentile(v, 50)),
    "p90": lambda v: float(np.percentile(v, 90)),
    "p99": lambda v: float(np.percentile(v, 99)),
    "median": lambda v: float(np.median(v)),
    "mean": lambda v: float(np.mean(v)),
    "sum": lambda v: float(np.sum(v)),
    "min": lambda v: float(np.min(v)),
    "max": lambda v: float(np.max(v)),
}
_EXACT_LIMIT: Final = 200_000
_RANK_TEST_FROM: Final = 4
_LEVEL: Final = 0.05


def statistic(name: str, samples: NDArray[np.float64]) -> float:
    """The statistic of that name over the samples of one run."""
    if name not in _STATISTICS:
        raise UsageError(f"no statistic is called {name!r}", did_you_mean(name, list(_STATISTICS)))
    if not len(samples):
        raise UsageError(f"there are no samples to take the {name} of")
    return _STATISTICS[name](samples)


def over_runs(values: Sequence[float]) -> float:
    """The median over runs: the run, not the sample, is what is replicated."""
    return float(np.median(values))


def within_noise(before: Sequence[float], after: Sequence[float], deterministic: bool) -> bool:
    """Whether the difference of two sides, one value a run, may be chance.

    From four runs a side on it is an exact rank test at 5 per cent; with fewer, no such test can tell, and
    the sides must not overlap. A deterministic target's single runs differ by nothing but the change.
    """
    if min(len(before), len(after)) < 2:
        return before == after if deterministic else False
    if min(len(before), len(after)) < _RANK_TEST_FROM:
        return min(after) <= max(before) and min(before) <= max(after)
    return rank_test(before, after) > _LEVEL


def rank_test(before: Sequence[float], after: Sequence[float]) -> float:
    """The two-sided p of the rank-sum test: exact by permutation, normal where that takes too long."""
    ranks = _mid_ranks([*before, *after])
    n, total = len(before), len(ranks)
    expected = n * (total + 1) / 2
    seen = abs(sum(ranks[:n]) - expected)
    if math.comb(total, n) <= _EXACT_LIMIT:
        sums = [abs(sum(chosen) - expected) for chosen in combinations(ranks, n)]
        return sum(s >= seen - 1e-9 for s in sums) / len(sums)
    mean_rank = (total + 1) / 2
    variance = n * (total - n) / (total * (total - 1)) * sum((r - mean_rank) ** 2 for r in ranks)
    return math.erfc(seen / math.sqrt(2 * variance)) if variance else 1.0


def _mid_ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for i in order[start : end + 1]:
            ranks[i] = (start + end) / 2 + 1
        start = end + 1
    return ranks
