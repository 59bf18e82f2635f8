from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.errors import UsageError
from mqlab.units import UNITS, convert, format_number, parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("50", "ms", 50),
        ("0.05s", "ms", 50),
        ("50 ms", "ms", 50),
        ("50000\u00b5s", "ms", 50),
        ("50000\u03bcs", "ms", 50),
        ("1kHz", "Hz", 1000),
        ("6.49MIOPS", "IOPS", 6.49e6),
        ("1.39%", "ratio", 0.0139),
        ("8", "", 8),
    ],
)
def test_a_quantity_is_converted_to_the_unit_asked_for(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "ms", "1,5", "five", "1e400", "0x10", "nan", "inf", "1 2"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_quantity(text, "ms")


def test_a_wrong_unit_is_refused_with_the_right_ones() -> None:
    with pytest.raises(UsageError, match="no unit for a value in ms") as caught:
        parse_quantity("5MB", "ms")
    assert "us" in caught.value.remedy
    with pytest.raises(UsageError, match="no unit for a value in plain numbers"):
        parse_quantity("5ms", "")


@given(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)), st.floats(1e-6, 1e6))
def test_conversion_there_and_back(unit: str, other: str, value: float) -> None:
    if UNITS[unit][0] == UNITS[other][0]:
        assert convert(convert(value, unit, other), other, unit) == pytest.approx(value)
    else:
        with pytest.raises(UsageError, match="measure different things"):
            convert(value, unit, other)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9.996, "10.0"),
        (3.449, "3.45"),
        (1234.5, "1234"),
        (6.4e6, "6400000"),
        (0.000123, "0.000123"),
        (-0.5, "-0.500"),
    ],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert format_number(value) == text


@given(st.floats(1e-4, 1e8))
def test_a_formatted_number_is_within_its_digits(value: float) -> None:
    assert float(format_number(value, 4)) == pytest.approx(value, rel=1e-3)
