"""Parameters of an experiment: what may be set, in which unit and range, and how a wrong value is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from mqlab.errors import UsageError
from mqlab.units import parse_quantity

__all__ = ["Parameter", "Scalar", "apply_settings", "did_you_mean"]

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that a user may set with --set NAME=VALUE.

    A parameter with `choices` takes one of these words. Without, it is a number from `low` to `high`, whole
    when `integer` is set.
    """

    name: str
    help: str
    unit: str = ""
    low: float = 0
    high: float = 0
    integer: bool = True
    choices: tuple[str, ...] = ()

    def allowed(self) -> str:
        """The allowed values in words."""
        if self.choices:
            return " or ".join(self.choices)
        kind = "a whole number" if self.integer else "a number"
        unit = f" {self.unit}" if self.unit else ""
        return f"{kind} from {_plain(self.low)} to {_plain(self.high)}{unit}"

    def read(self, value: Scalar) -> Scalar:
        """`value` (a number, or text as it stands on a command line) checked and converted."""
        if self.choices:
            if value not in self.choices:
                raise self._refusal(value)
            return value
        if isinstance(value, bool) or value == "":
            raise self._refusal(value)
        try:
            number = parse_quantity(value, self.unit) if isinstance(value, str) else float(value)
        except (TypeError, OverflowError):
            raise self._refusal(value) from None
        if not self.low <= number <= self.high:  # also refuses NaN
            raise self._refusal(value)
        if not self.integer:
            return number
        if number != int(number) or (isinstance(value, str) and "e" in _number_part(value).lower()):
            raise self._refusal(value)
        return int(number)

    def _refusal(self, value: Scalar) -> UsageError:
        given = repr(value) if isinstance(value, str) else str(value)
        return UsageError(f"{self.name}={given} is not allowed", f"{self.name} is {self.allowed()}")


def _number_part(text: str) -> str:
    return "".join(c for c in text if c in "+-.0123456789eE")


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """What to say to an unknown word: the nearest known one, else all of them."""
    near = get_close_matches(word, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(known)}" if known else "there are none"


def apply_settings(parameters: Sequence[Parameter], settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The user's settings, each checked against its parameter."""
    known = {p.name: p for p in parameters}
    checked: dict[str, Scalar] = {}
    for name, value in settings.items():
        if name not in known:
            raise UsageError(f"unknown parameter {name!r}", did_you_mean(name, list(known)))
        checked[name] = known[name].read(value)
    return checked
