"""Whether a published row was met: the rules by which what was measured is held against what was printed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from mqlab.published import Bounds, Range, Row, Side
from mqlab.units import format_number

__all__ = ["Judgement", "Measured", "Status", "before_error", "effect_error", "judge", "ratio_of"]

Status = Literal["met", "off", "half", "skipped"]

EFFECT_TOLERANCE: Final = 0.25
LEVEL_TOLERANCE: Final = 0.25
SMALL_EFFECT: Final = 0.10
TIE_TOLERANCE: Final = 0.005
ZERO_TOLERANCE: Final = 0.05
_EQUAL: Final = 1e-9
_NOISE: Final = "the measured effect lies within the noise of the measurement"


@dataclass(frozen=True, slots=True)
class Measured:
    """Both sides in the row's unit. None is a side that was not measured; `reason` then says why.

    `noisy`: the difference of the sides may be chance.
    """

    before: float | None
    after: float | None
    noisy: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The errors of a row, its status, and the reason where one is due."""

    published_ratio: float | None
    measured_ratio: float | None
    effect_error: float | None
    before_error: float | None
    status: Status
    reason: str


def ratio_of(before: Side, after: Side) -> float | None:
    """after/before, a range standing for its middle; None where a side is missing or before is zero."""
    low, high = _middle(before), _middle(after)
    if low is None or high is None or low == 0:
        return None
    return high / low


def effect_error(published: float | None, measured: float | None) -> float | None:
    """How much of the published effect is missed: 0 is none, 1 is what a model without any effect scores."""
    if not published or not measured or abs(published - 1) < _EQUAL:
        return None
    return abs(math.log(measured) - math.log(published)) / abs(math.log(published))


def before_error(published: Side, measured: float | None) -> float | None:
    """How far the level of `before` is off, as a share; inside a published range it is not off."""
    if published is None or measured is None:
        return None
    if isinstance(published, Range):
        if published.low <= measured <= published.high:
            return 0.0
        published = published.low if measured < published.low else published.high
    return abs(measured / published - 1) if published else None


def judge(row: Row, measured: Measured) -> Judgement:
    """Holds what was measured against the row."""
    published, ratio = ratio_of(row.before, row.after), ratio_of(measured.before, measured.after)
    effect, level = effect_error(published, ratio), before_error(row.before, measured.before)
    status, reason = _status(row, measured, published, ratio, effect, level)
    return Judgement(published, ratio, effect, level, status, reason)


def _status(
    row: Row,
    measured: Measured,
    published: float | None,
    ratio: float | None,
    effect: float | None,
    level: float | None,
) -> tuple[Status, str]:
    if measured.before is None and measured.after is None:
        return "skipped", measured.reason or "not measured"
    if row.expect:
        return _claim(row, measured, ratio)
    if measured.before is None or measured.after is None or row.before is None or row.after is None:
        return "half", _half(row, measured, level)
    if _middle(row.before) == 0 or _middle(row.after) == 0:
        return ("off", _NOISE) if measured.noisy else _zero_side(row, measured)
    if published is None or ratio is None or ratio == 0:
        return "off", "a side was measured as zero and is none in the thread"
    if abs(published - 1) < _EQUAL:
        return _tie(ratio)
    return _effect(published, ratio, effect, measured.noisy)


def _effect(published: float, ratio: float, effect: float | None, noisy: bool) -> tuple[Status, str]:
    if noisy or ratio == 1:
        return "off", _NOISE
    if (ratio > 1) != (published > 1):
        return "off", "the measured effect has the opposite sign"
    if abs(published - 1) < SMALL_EFFECT:
        share = math.log(ratio) / math.log(published)
        if 0.5 - _EQUAL <= share <= 2 + _EQUAL:
            return "met", ""
        return (
            "off",
            f"the measured effect is {format_number(share)} times the published one (0.5 to 2 is met)",
        )
    if effect is not None and effect <= EFFECT_TOLERANCE + _EQUAL:
        return "met", ""
    return "off", f"misses {_percent(effect)} of the published effect (25 % is met)"


def _tie(ratio: float) -> tuple[Status, str]:
    if abs(ratio - 1) <= TIE_TOLERANCE + _EQUAL:
        return "met", ""
    return "off", f"published is a tie, measured is {ratio - 1:+.2%}".replace("%", " %")


def _zero_side(row: Row, measured: Measured) -> tuple[Status, str]:
    zero_after = _middle(row.after) == 0
    nil, other = (measured.after, measured.before) if zero_after else (measured.before, measured.after)
    published = row.before if zero_after else row.after
    assert nil is not None
    assert other is not None
    if _middle(published) == 0:
        return ("met", "") if nil == other == 0 else ("off", "both sides are zero in the thread")
    if nil > ZERO_TOLERANCE * other + _EQUAL:
        side = "after" if zero_after else "before"
        return (
            "off",
            f"{side} is zero in the thread and {_percent(nil / other if other else None)} of the other side",
        )
    error = before_error(published, other)
    if error is None or error > LEVEL_TOLERANCE + _EQUAL:
        return "off", f"the side that is not zero is off by {_percent(error)} (25 % is met)"
    return "met", ""


def _half(row: Row, measured: Measured, level: float | None) -> str:
    reasons = [measured.reason] if measured.reason else []
    if level is not None:
        within = "within" if level <= LEVEL_TOLERANCE + _EQUAL else "not within"
        reasons.append(f"before is {within} 25 % (off by {_percent(level)})")
    elif measured.before is None:
        reasons.append("only after was measured")
    elif row.before is None:
        reasons.append("the thread gives no figure for before")
    return "; ".join(reasons)


def _claim(row: Row, measured: Measured, ratio: float | None) -> tuple[Status, str]:
    if measured.before == 0 and measured.after:
        ratio = math.inf  # beyond every bound above; it is judged here and written nowhere
    values = {"before": measured.before, "after": measured.after, "ratio": ratio}
    unknown = [name for name in row.expect if values[name] is None]
    if unknown:
        zero = "; both sides are zero" if unknown == ["ratio"] and measured.before == 0 else ""
        return "half", measured.reason or f"{', '.join(unknown)} was not measured{zero}"
    if measured.noisy and _claims_an_effect(row.expect.get("ratio")):
        return "off", _NOISE
    for name, bounds in row.expect.items():
        value = values[name]
        if value is not None and not bounds.hold(value):
            shown = format_number(value) if math.isfinite(value) else "without bound"
            return "off", f"{name} is {shown}, the claim says {bounds}"
    return "met", ""


def _claims_an_effect(bounds: Bounds | None) -> bool:
    return bounds is not None and not bounds.hold(1.0)


def _middle(side: Side) -> float | None:
    return side.middle if isinstance(side, Range) else side


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{format_number(share * 100)} %"
