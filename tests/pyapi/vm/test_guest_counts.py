"""Counts become metrics an operation, and counters of a run."""

from __future__ import annotations

from mqlab.guest import Guest
from mqlab.targets.guest_counts import count_counters, count_samples
from mqlab.vm.counts import Counts, FunctionCount

COUNTS = Counts(1, 100, 10, {"busy": FunctionCount(2, 80), "rare": FunctionCount(4, 10)})
GUEST = Guest("w", {"barriers": "calls_per_op:rare"}, counts=("absent",))


def test_counts_are_divided_by_the_operations_of_the_window() -> None:
    assert count_samples(GUEST, {"window_operations": 4}, COUNTS) == {
        "instructions_per_op": [25.0],
        "calls_per_op:rare": [1.0],
        "calls_per_op:absent": [0.0],
    }


def test_without_counts_a_window_or_operations_there_is_no_metric() -> None:
    assert count_samples(GUEST, {"window_operations": 4}, None) == {}
    assert count_samples(GUEST, {}, COUNTS) == {}
    assert count_samples(GUEST, {"window_operations": 4}, Counts(0, 0, 0, {})) == {}
    assert count_counters(GUEST, None) == {}
    assert count_counters(GUEST, Counts(0, 0, 0, {})) == {}


def test_sums_stay_with_the_run() -> None:
    assert count_counters(GUEST, COUNTS) == {
        "instructions": 100,
        "calls:busy": 2,
        "instructions:busy": 80,
        "calls:rare": 4,
        "instructions:rare": 10,
    }
