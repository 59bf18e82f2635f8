"""Units: what converts into what, and how a number with a unit is read and written."""

from __future__ import annotations

import math
import re
from typing import Final

from mqlab.errors import UsageError

__all__ = ["UNITS", "convert", "format_number", "parse_quantity", "same_dimension"]

# unit -> (dimension, size in the dimension's smallest unit: whole numbers, so that results are exact).
# A unit that is missing here converts into itself only.
UNITS: Final[dict[str, tuple[str, float]]] = {
    "ns": ("time", 1.0),
    "us": ("time", 1e3),
    "ms": ("time", 1e6),
    "s": ("time", 1e9),
    "min": ("time", 60e9),
    "Hz": ("frequency", 1.0),
    "kHz": ("frequency", 1e3),
    "bytes": ("size", 1.0),
    "B": ("size", 1.0),
    "kB": ("size", 1e3),
    "MB": ("size", 1e6),
    "GB": ("size", 1e9),
    "KiB": ("size", 1024.0),
    "MiB": ("size", 1024.0**2),
    "GiB": ("size", 1024.0**3),
    "B/s": ("bandwidth", 1.0),
    "kB/s": ("bandwidth", 1e3),
    "MB/s": ("bandwidth", 1e6),
    "GB/s": ("bandwidth", 1e9),
    "KiB/s": ("bandwidth", 1024.0),
    "MiB/s": ("bandwidth", 1024.0**2),
    "GiB/s": ("bandwidth", 1024.0**3),
    "IOPS": ("rate", 1.0),
    "kIOPS": ("rate", 1e3),
    "MIOPS": ("rate", 1e6),
    "%": ("share", 1.0),
    "ratio": ("share", 100.0),
}

# The micro sign and the Greek letter mu look alike and both are typed.
_ALIASES: Final = {"\u00b5s": "us", "\u03bcs": "us", "usec": "us", "msec": "ms", "sec": "s"}
_QUANTITY: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")


def _known(unit: str) -> str:
    return _ALIASES.get(unit, unit)


def same_dimension(unit: str, other: str) -> bool:
    """Whether values of the one unit can be told in the other."""
    unit, other = _known(unit), _known(other)
    if unit == other:
        return True
    return unit in UNITS and other in UNITS and UNITS[unit][0] == UNITS[other][0]


def convert(value: float, unit: str, to: str) -> float:
    """`value` of `unit`, told in `to`; a UsageError when the units measure different things."""
    unit, to = _known(unit), _known(to)
    if unit == to:
        return value
    if not same_dimension(unit, to):
        raise UsageError(
            f"{value:g} {unit} cannot be told in {to}: they measure different things",
            f"give a value in {', '.join(units_like(to)) or to}",
        )
    return value * UNITS[unit][1] / UNITS[to][1]


def units_like(unit: str) -> list[str]:
    """The units that convert into `unit`."""
    if unit not in UNITS:
        return []
    return [name for name, (dimension, _) in UNITS.items() if dimension == UNITS[unit][0]]


def parse_quantity(text: str, unit: str) -> float:
    """The number in `text`, converted to `unit` when it names another one ("0.05s" read as ms is 50)."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        example = f"{10:g}{unit}" if unit in UNITS else "10"
        raise UsageError(f"{text!r} is no number", f"write it as {example}")
    value = float(match[1])
    if not math.isfinite(value):
        raise UsageError(f"{text!r} is no finite number", "give a finite number")
    given = _known(match[2])
    if not given or given == unit:
        return value
    if not same_dimension(given, unit):
        allowed = units_like(unit)
        remedy = f"use {' or '.join(allowed)}" if allowed else "leave the unit away: it is a plain number"
        raise UsageError(f"{text!r}: {given!r} is no unit for a value in {unit or 'plain numbers'}", remedy)
    return convert(value, given, unit)


def format_number(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits and no exponent where none is needed."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude >= 9 or magnitude < -5:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - magnitude)
    text = f"{value:.{decimals}f}"
    # Rounding may carry into a new digit: 9.996 is 10.0 with three digits, not 10.00.
    if len(text.replace("-", "").replace(".", "").lstrip("0")) > max(digits, magnitude + 1) and decimals:
        text = f"{value:.{decimals - 1}f}"
    return text
