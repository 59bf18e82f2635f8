"""Profiles: what the sim charges for each step, as data with a source for each value."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from mqlab.errors import UsageError
from mqlab.parameters import did_you_mean
from mqlab.units import convert, same_dimension

__all__ = ["Cost", "Profile", "load_profile", "parse_profile", "profile_names"]


@dataclass(frozen=True, slots=True)
class Cost:
    """One parameter of the sim: its value, and where that comes from.

    `fitted_on` names the published rows ("thread/row") that the value was fitted on; such rows are
    calibrated, all others are predictions.
    """

    name: str
    value: float
    unit: str
    source: str
    fitted_on: tuple[str, ...] = ()

    @property
    def engine_value(self) -> float:
        """The value as the engine takes it: times in nanoseconds, all else as it is."""
        return convert(self.value, self.unit, "ns") if same_dimension(self.unit, "ns") else self.value


@dataclass(frozen=True, slots=True)
class Profile:
    """The costs of one kind of machine."""

    name: str
    title: str
    costs: Mapping[str, Cost]

    def values(self) -> dict[str, float]:
        """The costs by name, as the engine takes them."""
        return {name: cost.engine_value for name, cost in self.costs.items()}

    def fitted_rows(self) -> frozenset[str]:
        """The published rows that some cost was fitted on."""
        return frozenset(row for cost in self.costs.values() for row in cost.fitted_on)

    def scaled(self, name: str, factor: float) -> Profile:
        """The same profile with one cost changed."""
        cost = self.costs[name]
        return replace(self, costs={**self.costs, name: replace(cost, value=cost.value * factor)})


def _folder() -> Traversable:
    return files("mqlab") / "profiles"


@cache
def profile_names() -> tuple[str, ...]:
    """The profiles that mqlab ships."""
    names = [entry.name for entry in _folder().iterdir()] if _folder().is_dir() else []
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def load_profile(name: str) -> Profile:
    """A shipped profile by name, or one from a file (a path that ends in .toml)."""
    if name.endswith(".toml"):
        path = Path(name)
        try:
            return parse_profile(path.read_text(encoding="utf-8"), path.stem, name)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot read the profile {name}: {error}", "give the path of a profile"
            ) from None
    if name not in profile_names():
        raise UsageError(f"no profile is called {name!r}", did_you_mean(name, list(profile_names())))
    return parse_profile((_folder() / f"{name}.toml").read_text(encoding="utf-8"), name, f"{name}.toml")


def parse_profile(text: str, name: str, source: str) -> Profile:
    """Reads a profile; a UsageError names the file and the cost that is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is no TOML: {error}", "mend the file") from None
    costs = data.get("cost", {})
    if not isinstance(costs, dict):
        raise UsageError(f"{source}: cost is no table", "write [cost.NAME]")
    unknown = set(data) - {"title", "cost"}
    if unknown:
        raise UsageError(f"{source}: unknown key {sorted(unknown)[0]!r}", "known are title and [cost.NAME]")
    return Profile(
        name, str(data.get("title", "")), {key: _cost(key, value, source) for key, value in costs.items()}
    )


def _cost(name: str, data: Any, source: str) -> Cost:
    where = f"{source}: cost.{name}"
    known = {"value", "unit", "source", "fitted_on"}
    if not isinstance(data, dict) or set(data) - known or not known - {"fitted_on"} <= set(data):
        raise UsageError(f"{where} is not complete", "give value, unit, source and, if fitted, fitted_on")
    value, unit, fitted = data["value"], data["unit"], data.get("fitted_on", [])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise UsageError(f"{where}: value is {value!r}", "write a number that is not negative")
    if not isinstance(unit, str) or not isinstance(data["source"], str) or not data["source"]:
        raise UsageError(f"{where}: unit and source must be texts", "say where the value comes from")
    if not isinstance(fitted, list) or not all(isinstance(row, str) and "/" in row for row in fitted):
        raise UsageError(f"{where}: fitted_on is no list of rows", 'write ["thread/row"]')
    return Cost(name, float(value), unit, data["source"], tuple(fitted))
