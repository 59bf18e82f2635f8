"""The rules by which a row is met, off, half or skipped."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mqlab.published import Bounds, Range, Row, Side
from mqlab.rules import Measured, before_error, effect_error, judge, ratio_of

POSITIVE = st.floats(1e-3, 1e6)


def row(before: Side, after: Side, expect: dict[str, Bounds] | None = None) -> Row:
    return Row("t", "r", "c", "m_ms", "ms", "lower", "table", before=before, after=after, expect=expect or {})


def status(
    published: tuple[Side, Side], measured: tuple[float | None, float | None], noisy: bool = False
) -> tuple[str, str]:
    judged = judge(row(*published), Measured(*measured, noisy=noisy))
    return judged.status, judged.reason


def test_ratio_is_after_over_before_and_a_range_stands_for_its_middle() -> None:
    assert ratio_of(4.0, 1.0) == 0.25
    assert ratio_of(Range(1201, 1308), Range(115, 124)) == pytest.approx(119.5 / 1254.5)
    assert ratio_of(0.0, 1.0) is None
    assert ratio_of(None, 1.0) is None


@given(POSITIVE, POSITIVE)
def test_a_model_without_any_effect_misses_all_of_it(before: float, after: float) -> None:
    assume(abs(after / before - 1) > 1e-6)
    assert effect_error(after / before, 1.0) == pytest.approx(1.0)
    assert effect_error(after / before, after / before) == 0


def test_errors_are_null_where_they_mean_nothing() -> None:
    assert effect_error(1.0, 0.9) is None  # the published effect is nil
    assert effect_error(0.0, 0.9) is None
    assert effect_error(None, 0.9) is None
    assert effect_error(0.5, None) is None
    assert before_error(None, 3.0) is None
    assert before_error(3.0, None) is None
    assert before_error(0.0, 3.0) is None


def test_the_level_inside_a_range_is_not_off_and_outside_counts_from_the_nearer_end() -> None:
    assert before_error(Range(6, 8), 7.0) == 0
    assert before_error(Range(6, 8), 5.4) == pytest.approx(0.1)
    assert before_error(Range(6, 8), 10.0) == pytest.approx(0.25)
    assert before_error(3.45, 3.105) == pytest.approx(0.1)


def test_an_effect_is_met_up_to_a_quarter_of_it_in_the_logarithm() -> None:
    published = 0.17 / 3.45
    for share, expected in ((0.76, "met"), (0.74, "off"), (1.24, "met"), (1.26, "off")):
        measured = math.exp(math.log(published) * share)
        assert status((3.45, 0.17), (1.0, measured))[0] == expected


def test_the_level_alone_decides_nothing_when_both_sides_are_there() -> None:
    judged = judge(row(3.45, 0.17), Measured(34.5, 1.7))
    assert (judged.status, judged.before_error) == ("met", pytest.approx(9.0))


@pytest.mark.parametrize(
    ("after", "expected"),
    [(1010.0, "met"), (1005.1, "met"), (1004.9, "off"), (1020.0, "met"), (1020.3, "off"), (990.0, "off")],
)
def test_a_small_effect_needs_its_sign_and_a_factor_of_two(after: float, expected: str) -> None:
    assert status((1000.0, 1010.0), (1000.0, after))[0] == expected


def test_a_wrong_sign_is_named() -> None:
    assert "opposite sign" in status((1000.0, 1010.0), (1000.0, 990.0))[1]
    assert "opposite sign" in status((4.0, 1.0), (1.0, 4.0))[1]


@pytest.mark.parametrize(
    ("after", "expected"), [(1005.0, "met"), (995.0, "met"), (1006.0, "off"), (994.0, "off")]
)
def test_a_tie_is_met_within_half_a_per_cent(after: float, expected: str) -> None:
    assert status((553000.0, 553000.0), (1000.0, after))[0] == expected


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ((7.0, 0.0), "met"),
        ((7.0, 0.35), "met"),  # 5 % of the other side
        ((7.0, 0.36), "off"),
        ((4.5, 0.0), "met"),  # a quarter below the range's low end
        ((4.4, 0.0), "off"),
        ((10.0, 0.0), "met"),
        ((10.1, 0.0), "off"),
        ((0.0, 0.0), "off"),
    ],
)
def test_a_zero_side(measured: tuple[float, float], expected: str) -> None:
    judged = judge(row(Range(6, 8), 0.0), Measured(*measured))
    assert judged.status == expected
    assert judged.effect_error is None
    assert judged.reason or expected == "met"


def test_a_zero_before() -> None:
    assert status((0.0, 8.0), (0.3, 8.0))[0] == "met"
    assert status((0.0, 8.0), (3.0, 8.0))[0] == "off"
    assert status((0.0, 0.0), (0.0, 0.0))[0] == "met"
    assert status((0.0, 0.0), (0.0, 1.0))[0] == "off"


def test_a_measured_zero_where_none_was_published_is_off() -> None:
    assert status((4.0, 1.0), (4.0, 0.0))[0] == "off"
    assert status((4.0, 1.0), (0.0, 1.0))[0] == "off"


@pytest.mark.parametrize("published", [(4.0, 1.0), (1000.0, 1010.0), (7.0, 0.0)])
@pytest.mark.parametrize("flip", [False, True])
def test_an_effect_within_the_noise_is_off_whatever_its_sign(
    published: tuple[float, float], flip: bool
) -> None:
    measured = published[::-1] if flip else published
    assert status(published, measured, noisy=True) == (
        "off",
        "the measured effect lies within the noise of the measurement",
    )


def test_no_effect_at_all_is_off() -> None:
    assert status((4.0, 1.0), (4.0, 4.0))[0] == "off"


def test_one_side_is_half_and_the_level_decides_what_the_reason_says() -> None:
    assert status((3.45, 0.17), (3.4, None)) == ("half", "before is within 25 % (off by 1.45 %)")
    assert status((3.45, 0.17), (16.0, None)) == ("half", "before is not within 25 % (off by 364 %)")
    assert status((3.45, 0.17), (None, 0.17)) == ("half", "only after was measured")
    judged = judge(row(3.45, 0.17), Measured(3.4, None, reason="the patched kernel is not there"))
    assert judged.reason == "the patched kernel is not there; before is within 25 % (off by 1.45 %)"
    assert status((20.0, None), (18.0, 17.0))[0] == "half"


def test_nothing_measured_is_skipped_with_the_reason() -> None:
    judged = judge(row(3.45, 0.17), Measured(None, None, reason="no QEMU"))
    assert (judged.status, judged.reason) == ("skipped", "no QEMU")
    assert (judged.measured_ratio, judged.effect_error, judged.before_error) == (None, None, None)


@pytest.mark.parametrize(
    ("bounds", "measured", "expected"),
    [
        ({"ratio": Bounds(at_least=0.995, at_most=1.005)}, (2.0, 2.0), "met"),
        ({"ratio": Bounds(at_least=0.995, at_most=1.005)}, (2.0, 1.9), "off"),
        ({"ratio": Bounds(below=1)}, (2.0, 2.0), "off"),
        ({"before": Bounds(above=1000)}, (1200.0, None), "met"),
        ({"before": Bounds(above=1000)}, (900.0, None), "off"),
        ({"after": Bounds(at_most=0)}, (None, 0.0), "met"),
        ({"after": Bounds(at_most=0)}, (None, 1.0), "off"),
        ({"after": Bounds(at_most=0)}, (1.0, None), "half"),
        ({"ratio": Bounds(above=1)}, (0.0, 1.0), "met"),
        ({"ratio": Bounds(below=1)}, (0.0, 1.0), "off"),
        ({"ratio": Bounds(above=1)}, (0.0, 0.0), "half"),
        ({"ratio": Bounds(above=1)}, (None, None), "skipped"),
    ],
)
def test_a_claim_in_words_is_held_against_its_bounds(
    bounds: dict[str, Bounds], measured: tuple[float | None, float | None], expected: str
) -> None:
    judged = judge(row(None, None, bounds), Measured(*measured))
    assert judged.status == expected
    assert judged.reason or expected == "met"


def test_noise_refutes_a_claimed_effect_and_not_a_claimed_tie() -> None:
    noisy = Measured(2.0, 1.999, noisy=True)
    assert judge(row(None, None, {"ratio": Bounds(below=1)}), noisy).status == "off"
    assert judge(row(None, None, {"ratio": Bounds(at_least=0.99, at_most=1.01)}), noisy).status == "met"


@given(POSITIVE, POSITIVE, st.none() | POSITIVE, st.none() | POSITIVE, st.booleans())
def test_every_row_has_a_status_and_all_but_met_a_reason(
    before: float, after: float, measured_before: float | None, measured_after: float | None, noisy: bool
) -> None:
    judged = judge(row(before, after), Measured(measured_before, measured_after, noisy))
    assert judged.status in ("met", "off", "half", "skipped")
    assert (judged.status == "met") == (not judged.reason)
    for number in (judged.effect_error, judged.before_error, judged.measured_ratio):
        assert number is None or math.isfinite(number)
