from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.errors import UsageError
from mqlab.statistic import over_runs, rank_test, statistic, within_noise


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("p50", 2.5),
        ("median", 2.5),
        ("mean", 4),
        ("sum", 16),
        ("min", 1),
        ("max", 10),
        ("p90", 7.9),
        ("p99", 9.79),
    ],
)
def test_statistics(name: str, value: float) -> None:
    assert statistic(name, np.array([1.0, 2.0, 3.0, 10.0])) == pytest.approx(value)


def test_an_unknown_statistic_and_no_samples_are_refused() -> None:
    with pytest.raises(UsageError, match="no statistic"):
        statistic("p51", np.array([1.0]))
    with pytest.raises(UsageError, match="no samples"):
        statistic("p50", np.array([]))


def test_runs_are_what_is_replicated() -> None:
    assert over_runs([1, 100, 2]) == 2


def test_two_or_three_runs_must_not_overlap() -> None:
    assert not within_noise([4, 4.1, 4.2], [1, 1.1], True)
    assert within_noise([4, 4.1, 4.2], [4.2, 5], True)
    assert within_noise([1, 9], [4, 5], False)


def test_single_runs_differ_by_the_change_alone_only_on_a_deterministic_target() -> None:
    assert not within_noise([4], [1], True)
    assert within_noise([4], [4], True)
    assert not within_noise([4], [1], False)  # nothing is known of the noise: the reason of a row is another


def test_from_four_runs_on_a_rank_test_decides() -> None:
    assert not within_noise([10, 11, 12, 13], [1, 2, 3, 4], False)
    assert not within_noise([10, 11, 12, 13, 14], [13.5, 15, 16, 17, 18, 19], False)  # an overlap is no proof
    assert within_noise([1, 2, 3, 4], [1.5, 2.5, 3.5, 4.5], False)


def test_the_exact_p_of_complete_separation() -> None:
    assert rank_test([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert rank_test([1] * 5, [1] * 5) == 1


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=3), st.lists(st.integers(0, 4), min_size=2, max_size=3)
)
def test_the_rank_test_agrees_with_all_permutations(before: list[int], after: list[int]) -> None:
    values = before + after
    ranks = [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]
    middle = len(before) * (len(values) + 1) / 2
    seen = abs(sum(ranks[: len(before)]) - middle)
    all_ = [abs(sum(p[: len(before)]) - middle) >= seen - 1e-9 for p in permutations(ranks)]
    assert rank_test(before, after) == pytest.approx(sum(all_) / len(all_))


def test_many_runs_use_the_normal_approximation() -> None:
    before, after = [float(i) for i in range(40)], [float(i) + 0.5 for i in range(40)]
    assert 0.5 < rank_test(before, after) < 1
    assert rank_test(before, [v + 100 for v in after]) < 1e-10
