"""Verdicts by a margin."""

from __future__ import annotations

import pytest

from mqlab.trying.judging import Verdict, judge, overall


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([4.0], [0.05], "improved"),
        ([4.0], [4.05], "no change"),
        ([4.0], [4.2], "regressed"),
        ([4.0, 4.0], [3.0, 5.0], "inconclusive"),  # the seeds do not agree
        ([4.0, 4.1], [3.0, 3.1], "improved"),
        ([1.0], [0.0], "improved"),
        ([0.0], [1.0], "regressed"),
        ([0.0], [0.0], "no change"),
        ([], [1.0], "inconclusive"),
    ],
)
def test_exact_figures(before: list[float], after: list[float], verdict: Verdict) -> None:
    assert judge(before, after, "lower", 0.02, True) == verdict


def test_the_direction_counts_and_a_margin_of_zero_too() -> None:
    assert judge([100.0], [110.0], "higher", 0.02, True) == "improved"
    assert judge([100.0], [100.001], "lower", 0.0, True) == "regressed"
    assert judge([100.0], [100.0], "lower", 0.0, True) == "no change"


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ([1.0, 1.1, 1.2], "inconclusive"),  # three runs a side
        ([1.0, 1.1, 1.2, 1.05], "improved"),
        ([9.0, 10.1, 11.0, 12.0], "inconclusive"),
        ([9.9, 10.1, 10.2, 9.8], "no change"),
    ],
)
def test_real_time_takes_four_runs_and_a_test(after: list[float], verdict: Verdict) -> None:
    assert judge([9.0, 10.0, 11.0, 10.0], after, "lower", 0.02, False) == verdict


def test_a_regression_anywhere_is_one() -> None:
    assert overall(["improved", "regressed", "no change"]) == "regressed"
    assert overall(["improved", "no change", "inconclusive"]) == "improved"
    assert overall(["no change", "inconclusive"]) == "inconclusive"
    assert overall(["no change"]) == "no change"
    assert overall([]) == "inconclusive"
