"""From exact counts of a guest's instructions to metrics of a case and counters of a run."""

from __future__ import annotations

from collections.abc import Mapping

from mqlab.guest import Guest
from mqlab.vm.counts import Counts

__all__ = ["count_counters", "count_samples"]

_CALLS = "calls_per_op:"
_PERCENT = "percent:"
_OPERATIONS = "window_operations"
# Of the functions that no metric names, those with the most instructions are kept with the run.
_KEPT = 40


def _wanted(guest: Guest) -> list[str]:
    named = [name.removeprefix(_CALLS) for name in guest.metrics.values() if name.startswith(_CALLS)]
    return list(dict.fromkeys((*guest.counts, *named)))


def count_samples(guest: Guest, counters: Mapping[str, int], counts: Counts | None) -> dict[str, list[float]]:
    """Counts an operation, under the names that Guest.metrics knows; none without a measured window."""
    operations = counters.get(_OPERATIONS, 0)
    if counts is None or not counts.windows or not operations:
        return {}
    samples = counts.metrics(operations, _wanted(guest)) | _shares(guest, counts)
    return {name: [value] for name, value in samples.items()}


def _shares(guest: Guest, counts: Counts) -> dict[str, float]:
    """What is no count an operation: a function's own share of all instructions, and ratios of calls."""
    shares: dict[str, float] = {}
    for name in guest.metrics.values():
        if name.startswith(_PERCENT) and counts.total_instructions:
            function = counts.functions.get(name.removeprefix(_PERCENT))
            shares[name] = 100 * (function.instructions if function else 0) / counts.total_instructions
    for metric, ratio in guest.ratios.items():
        over, under = _calls(counts, ratio.over), _calls(counts, ratio.under)
        if under:
            shares[metric] = over / under
    return shares


def _calls(counts: Counts, factors: Mapping[str, int]) -> int:
    return sum(factor * counts.calls(function) for function, factor in factors.items())


def count_counters(guest: Guest, counts: Counts | None) -> dict[str, int]:
    """`instructions` of all windows, and `calls:` and `instructions:` of functions."""
    if counts is None or not counts.windows:
        return {}
    kept = dict(counts.top(_KEPT)) | {
        name: counts.functions[name] for name in _wanted(guest) if name in counts.functions
    }
    return {
        "instructions": counts.total_instructions,
        **{f"calls:{name}": count.calls for name, count in kept.items()},
        **{f"instructions:{name}": count.instructions for name, count in kept.items()},
    }
