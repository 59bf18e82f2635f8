"""From what the agent reports to the metrics of a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqlab.guest import Guest
from mqlab.units import convert

__all__ = ["metric_samples"]

_TIMES = ("ns", "us", "ms", "s")


def metric_samples(guest: Guest, given: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The agent's samples under the names of the case's metrics.

    Nanoseconds become the unit that the metric's name ends in; a sample that the case does not name is kept,
    in milliseconds where it is a time. Each nanosecond can be had back: round(value_ms * 1e6).
    """
    samples: dict[str, list[float]] = {}
    for metric, name in guest.metrics.items():
        if name in given:
            samples[metric] = _in_unit_of(metric, name, given[name])
    for name, values in given.items():
        if name not in guest.metrics.values():
            kept = f"{name.removesuffix('_ns')}_ms" if name.endswith("_ns") else name
            samples.setdefault(kept, _in_unit_of(kept, name, values))
    return samples


def _in_unit_of(metric: str, name: str, values: Sequence[float]) -> list[float]:
    unit, given = _unit(metric), _unit(name)
    if unit is None or given is None:
        return [float(value) for value in values]
    return [convert(value, given, unit) for value in values]


def _unit(name: str) -> str | None:
    last = name.rsplit("_", 1)[-1]
    return last if last in _TIMES else None
