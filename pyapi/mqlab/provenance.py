"""The line that stands under every table and plot: what it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqlab.commit_text import ascii_text

if TYPE_CHECKING:
    from mqlab.result import Result

__all__ = ["measured_on"]

_MANY = 3  # kernels are no longer named: the table's lines do


def measured_on(results: Sequence[Result]) -> str:
    """The line that stands under every table: kernel, HZ, CPUs, target, clock, runs."""
    runs = [run for result in results for run in result.runs]
    if not runs:
        return "Nothing was measured."
    params = {(r.experiment, c.id): c.params for r in results for c in r.definition.cases}
    seen: dict[str, set[str]] = {"kernel": set(), "hz": set(), "cpus": set()}
    for result in results:
        for run in result.runs:
            told = {**run.fingerprint, **params[result.experiment, run.case], **run.conditions}
            for name, values in seen.items():
                if name in told:
                    values.add(str(told[name]))
    most = max(run.run for run in runs) + 1
    parts = [
        _join(seen["kernel"], "") if len(seen["kernel"]) < _MANY else f"{len(seen['kernel'])} kernels",
        f"HZ {_join(seen['hz'])}" if seen["hz"] else "",
        f"{_join(seen['cpus'])} {'CPU' if seen['cpus'] == {'1'} else 'CPUs'}" if seen["cpus"] else "",
        "target " + _join({r.target for r in results}),
        _join({r.record.clock for r in results}),
        f"{most} run{'s' if most > 1 else ''}",
        "profile " + _join({r.record.profile for r in results})
        if any(r.record.profile for r in results)
        else "",
        _seeds({run.seed for run in runs}),
        "broken off before its end" if any(r.partial for r in results) else "",
        "blind to caches" if _counts_instructions(results) else "",
    ]
    return ascii_text("Measured on: " + ", ".join(part for part in parts if part) + ".")


def _seeds(seeds: set[int]) -> str:
    return f"seed {min(seeds)}" if len(seeds) == 1 else f"seeds {min(seeds)}-{max(seeds)}"


def _join(values: set[str], nothing: str = "?") -> str:
    def key(text: str) -> tuple[float, str]:
        return (float(text), "") if text.replace(".", "", 1).isdigit() else (0, text)

    return "/".join(sorted(values, key=key)) or nothing


def _counts_instructions(results: Sequence[Result]) -> bool:
    """Counts of calls as well: neither they nor instructions know of caches."""
    for result in results:
        counted = {m.name for m in result.definition.metrics if m.unit in ("instructions", "calls")}
        if any(counted & set(run.samples) for run in result.runs):
            return True
    return False
