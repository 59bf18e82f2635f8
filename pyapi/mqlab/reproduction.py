"""Reproduction: every published row beside what was measured. Immutable."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from mqlab.errors import UsageError
from mqlab.model import Direction, Experiment, RowMap
from mqlab.published import Range, Row, Side, Thread
from mqlab.result import Result
from mqlab.rules import Judgement, Measured, Status, judge
from mqlab.statistic import over_runs, within_noise
from mqlab.units import convert

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["REPRODUCE_SCHEMA", "MeasuredBeside", "Reproduction", "ReproductionRow", "compare_with_published"]

REPRODUCE_SCHEMA = "mqlab.reproduce/1"


@dataclass(frozen=True, slots=True)
class ReproductionRow:
    """One published row and what was measured for it, in the row's unit."""

    thread: str
    row: str
    condition: str
    metric: str
    unit: str
    direction: Direction
    target: str
    published_before: Side
    published_after: Side
    measured_before: float | None
    measured_after: float | None
    published_ratio: float | None
    measured_ratio: float | None
    effect_error: float | None
    before_error: float | None
    basis: Literal["calibrated", "predicted", "measured"]
    status: Status
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data: a range becomes {"low", "high"}."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> ReproductionRow:
        sides = ("published_before", "published_after")
        return ReproductionRow(**{**data, **{key: _side(data[key]) for key in sides}})


def _plain(value: Any) -> Any:
    return {"low": value.low, "high": value.high} if isinstance(value, Range) else value


def _side(value: Any) -> Side:
    return Range(**value) if isinstance(value, dict) else value


@dataclass(frozen=True)
class Reproduction:
    """What `mqlab reproduce` found: the rows, and the results they were taken from."""

    rows: tuple[ReproductionRow, ...]
    results: tuple[Result, ...]
    remarks: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        return any(result.partial for result in self.results)

    def thread(self, id_: str) -> Reproduction:
        """The rows of one thread, and its results."""
        rows = tuple(row for row in self.rows if row.thread == id_)
        return Reproduction(rows, tuple(r for r in self.results if r.definition.thread == id_))

    def frame(self) -> pd.DataFrame:
        """One row a published row."""
        import pandas as pd

        return pd.DataFrame(
            [r.to_dict() for r in self.rows], columns=[f.name for f in fields(ReproductionRow)]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": REPRODUCE_SCHEMA,
            "rows": [row.to_dict() for row in self.rows],
            "partial": self.partial,
            "remarks": list(self.remarks),
        }

    def table(self) -> str:
        """A table for a commit message, a block for each thread."""
        from mqlab.table import reproduction_table

        return reproduction_table(self)

    def plot(self) -> Figure:
        """Published and measured side by side, a panel for each unit of each thread."""
        from mqlab.plot import plot_reproduction

        return plot_reproduction(self)

    def __repr__(self) -> str:
        threads = ", ".join(dict.fromkeys(row.thread for row in self.rows))
        return f"<Reproduction {threads}: {len(self.rows)} rows{', partial' if self.partial else ''}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


@dataclass(frozen=True)
class MeasuredBeside:
    """Published rows with two measurements: of a real kernel, and of the sim under like conditions."""

    measured: Reproduction
    label: str
    other: Reproduction

    def table(self) -> str:
        """A table for a commit message with a line for each of them."""
        from mqlab.table import Beside, reproduction_table

        rows = {(row.thread, row.row): row for row in self.other.rows}
        return reproduction_table(self.measured, (Beside(self.label, rows, self.other.results),))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"measured": self.measured.to_dict(), "label": self.label, "other": self.other.to_dict()}


def compare_with_published(
    thread: Thread,
    result: Result,
    fitted: frozenset[str],
    basis: Literal["predicted", "measured"],
    exact: bool,
) -> tuple[ReproductionRow, ...]:
    """The thread's rows beside what `result` measured.

    `fitted` names the rows that a cost of the profile was fitted on, `exact` says that the target is
    deterministic.
    """
    maps = {m.row: m for m in result.definition.rows}
    rows = []
    for row in thread.rows:
        measured = _measure(row, maps.get(row.id), result, exact)
        judged = judge(row, measured)
        rows.append(
            ReproductionRow(
                thread.id, row.id, row.condition, row.metric, row.unit, row.direction, result.target,
                row.before, row.after, measured.before, measured.after,
                judged.published_ratio, judged.measured_ratio, judged.effect_error, judged.before_error,
                "calibrated" if basis == "predicted" and row.name in fitted else basis,
                judged.status,
                _explained(judged, maps.get(row.id), basis) or _about_one_side(maps.get(row.id)),
            )
        )  # fmt: skip
    return tuple(rows)


def _explained(judged: Judgement, row_map: RowMap | None, basis: str) -> str:
    """The verdict's reason, and what is known of the model's miss."""
    off = judged.status == "off" and basis == "predicted"
    finding = row_map.finding if row_map is not None and off else ""
    return f"{judged.reason}; {finding}" if judged.reason and finding else judged.reason


def _about_one_side(row_map: RowMap | None) -> str:
    """Why a side of a row that was met is empty."""
    if row_map is None or (row_map.before and row_map.after):
        return ""
    return "the claim is about before alone" if row_map.before else "the claim is about after alone"


def _measure(row: Row, row_map: RowMap | None, result: Result, exact: bool) -> Measured:
    if row_map is None:
        return Measured(None, None, reason="no case measures it yet")
    definition = result.definition
    sides = [(row_map.case, row_map.before), (row_map.after_case or row_map.case, row_map.after)]
    values = [
        [_in_unit(v, definition, row_map.metric, row) for v in _values(result, case, variant, row_map)]
        for case, variant in sides
    ]
    reasons = [
        _why_missing(result, case, variant, row_map.metric)
        for (case, variant), found in zip(sides, values, strict=True)
        if variant and not found
    ]
    before, after = (over_runs(found) if found else None for found in values)
    noisy = bool(values[0] and values[1]) and within_noise(values[0], values[1], exact)
    return Measured(before, after, noisy, "; ".join(dict.fromkeys(reasons)))


def _values(result: Result, case: str, variant: str, row_map: RowMap) -> list[float]:
    return result.values(case, variant, row_map.metric, row_map.statistic) if variant else []


def _in_unit(value: float, definition: Experiment, metric: str, row: Row) -> float:
    unit = definition.metric(metric).unit
    try:
        return convert(value, unit, row.unit)
    except UsageError:
        raise UsageError(
            f"{definition.id}: row {row.id} is in {row.unit} and its metric {metric} in {unit}",
            "mend the row map",
        ) from None


def _why_missing(result: Result, case: str, variant: str, metric: str) -> str:
    for skip in result.skips:
        if (skip.case, skip.variant) == (case, variant):
            return skip.reason
    ran = any(run.case == case and run.variant == variant for run in result.runs)
    if ran:
        return f"the workload gave no {metric}"
    return "interrupted before it was run" if result.partial else "not run"


def rows_by_status(rows: Sequence[ReproductionRow]) -> dict[Status, int]:
    """How many rows have each status."""
    counts: dict[Status, int] = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
    return counts
