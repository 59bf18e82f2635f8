"""Reproduction: every published row beside what was measured. Immutable."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from mqlab.errors import UsageError
from mqlab.guest import BASE_RELEASE, KERNEL_TARGET
from mqlab.model import Case, Direction, Experiment, RowMap
from mqlab.published import Range, Row, Side, Thread
from mqlab.result import Result
from mqlab.rules import Judgement, Measured, Status, judge
from mqlab.statistic import over_runs, within_noise
from mqlab.units import convert, format_number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "REPRODUCE_SCHEMA",
    "CountPair",
    "Reproduction",
    "ReproductionRow",
    "compare_with_published",
    "with_sim",
]

REPRODUCE_SCHEMA = "mqlab.reproduce/1"


@dataclass(frozen=True, slots=True)
class CountPair:
    """A count of the same two sides as a row: exact, and of what was done rather than of time."""

    metric: str
    unit: str
    before: float | None
    after: float | None

    def __str__(self) -> str:
        before, after = ("?" if side is None else f"{side:.10g}" for side in (self.before, self.after))
        return f"{self.metric} {before} -> {after}"


@dataclass(frozen=True, slots=True)
class ReproductionRow:
    """One published row and what was measured for it, in the row's unit.

    `sim_before` and `sim_after` are those of the sim where something else was measured, `counts` what was
    counted on the same sides, and `notes` what a reader of the figures should know.
    """

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
    sim_before: float | None = None
    sim_after: float | None = None
    counts: tuple[CountPair, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> bool:
        return self.measured_before is not None or self.measured_after is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain data: a range becomes {"low", "high"}."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> ReproductionRow:
        read: dict[str, Any] = {key: _side(data[key]) for key in ("published_before", "published_after")}
        read["counts"] = tuple(CountPair(**pair) for pair in data.get("counts", ()))
        read["notes"] = tuple(data.get("notes", ()))
        return ReproductionRow(**{**data, **read})


def _plain(value: Any) -> Any:
    if isinstance(value, Range):
        return {"low": value.low, "high": value.high}
    if isinstance(value, tuple):
        return [asdict(item) if isinstance(item, CountPair) else item for item in value]
    return value


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

        rows = [
            {**r.to_dict(), "notes": "; ".join(r.notes), "counts": "; ".join(map(str, r.counts))}
            for r in self.rows
        ]
        return pd.DataFrame(rows, columns=[f.name for f in fields(ReproductionRow)])

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


def compare_with_published(
    thread: Thread,
    result: Result,
    fitted: frozenset[str],
    basis: Literal["predicted", "measured"],
    exact: bool,
    inexact_cases: frozenset[str] = frozenset(),
) -> tuple[ReproductionRow, ...]:
    """The thread's rows beside what `result` measured.

    `fitted` names the rows that a cost of the profile was fitted on, `exact` says that the target is
    deterministic, but for `inexact_cases`.
    """
    maps = {m.row: m for m in result.definition.rows}
    rows = []
    for row in thread.rows:
        row_map = maps.get(row.id)
        measured = _measure(row, row_map, result, exact and _case(row_map) not in inexact_cases)
        judged = judge(row, measured)
        status, reason = judged.status, _reason(judged, row_map, basis)
        refusal = _not_comparable(row_map, result)
        if refusal and (measured.before is not None or measured.after is not None):
            status, reason = "skipped", refusal
        rows.append(
            ReproductionRow(
                thread.id, row.id, row.condition, row.metric, row.unit, row.direction, result.target,
                row.before, row.after, measured.before, measured.after,
                judged.published_ratio, judged.measured_ratio,
                None if refusal else judged.effect_error, None if refusal else judged.before_error,
                "calibrated" if basis == "predicted" and row.name in fitted else basis,
                status, reason,
                counts=_counts(row_map, result), notes=_notes(row_map, result),
            )
        )  # fmt: skip
    return tuple(rows)


def with_sim(rows: Sequence[ReproductionRow], sim: Sequence[ReproductionRow]) -> tuple[ReproductionRow, ...]:
    """The rows with the sim's figures for the same rows."""
    found = {(row.thread, row.row): row for row in sim}

    def beside(row: ReproductionRow) -> ReproductionRow:
        other = found.get((row.thread, row.row))
        if other is None:
            return row
        return replace(row, sim_before=other.measured_before, sim_after=other.measured_after)

    return tuple(beside(row) for row in rows)


def _case(row_map: RowMap | None) -> str:
    return row_map.case if row_map is not None else ""


def _reason(judged: Judgement, row_map: RowMap | None, basis: str) -> str:
    return _explained(judged, row_map, basis) or _about_one_side(row_map)


def _not_comparable(row_map: RowMap | None, result: Result) -> str:
    """Why a figure is none to hold against the published one: other sizes, or a machine that is too small."""
    if row_map is None:
        return ""
    for id_ in (row_map.case, row_map.after_case or row_map.case):
        case = result.definition.case(id_)
        if case.changed:
            set_ = ", ".join(f"{name} {case.params[name]}" for name in case.changed)
            return f"measured with {set_}: not what was published"
    there = row_map.guest
    on_kernel = result.definition.case(row_map.case).guest is not None and result.target == KERNEL_TARGET
    if there is not None and on_kernel and there.host_cpus > (host := len(os.sched_getaffinity(0))):
        return f"it needs {there.host_cpus} CPUs that work at once, and this machine has {host}"
    return ""


def _counts(row_map: RowMap | None, result: Result) -> tuple[CountPair, ...]:
    if row_map is None:
        return ()
    pairs = []
    for name in row_map.counts:
        before = result.values(row_map.case, row_map.before, name)
        after = result.values(row_map.after_case or row_map.case, row_map.after, name)
        if before or after:
            unit = result.definition.metric(name).unit
            sides = (over_runs(side) if side else None for side in (before, after))
            pairs.append(CountPair(name, unit, *sides))
    return tuple(pairs)


def _notes(row_map: RowMap | None, result: Result) -> tuple[str, ...]:
    """What is other on a real kernel, and how far the runs of one in real time lie apart."""
    if row_map is None or result.target != KERNEL_TARGET:
        return ()
    notes = [row_map.guest.note] if row_map.guest is not None and row_map.guest.note else []
    sides = ((row_map.case, row_map.before), (row_map.after_case or row_map.case, row_map.after))
    spreads = [
        f"{variant} {format_number(min(values))} to {format_number(max(values))}"
        for case, variant in sides
        if variant and len(values := result.values(case, variant, row_map.metric, row_map.statistic)) > 1
    ]
    unit = result.definition.metric(row_map.metric).unit
    case = result.definition.case(row_map.case)
    guest = case.guest
    if spreads:
        notes.append(f"over the runs, {unit}: {', '.join(spreads)}")
    if guest is not None and guest.clock == "real" and spreads:
        notes.append(f"in real time: {guest.why_real}")
    return (*notes, *_notes_of_runs(row_map, case, result))


def _notes_of_runs(row_map: RowMap, case: Case, result: Result) -> tuple[str, ...]:
    """A kernel of another HZ or release, and why nothing was counted."""
    runs = [
        run for run in result.runs if run.case == case.id and run.variant in (row_map.before, row_map.after)
    ]
    wanted = case.params.get("hz")
    others = sorted({str(run.conditions["hz"]) for run in runs if run.conditions.get("hz", wanted) != wanted})
    notes = [f"the kernel has HZ {'/'.join(others)}, the row is told for {wanted}"] if others else []
    releases = sorted({str(run.conditions.get("kernel", BASE_RELEASE)) for run in runs})
    other = [r for r in releases if not re.match(rf"{re.escape(BASE_RELEASE)}(?!\d)", r)]
    notes += [f"the kernel is {'/'.join(other)}, the thread is about {BASE_RELEASE}"] if other else []
    if row_map.counts and not _counts(row_map, result):
        notes += [note for run in runs for note in run.notes if "not counted" in note][:1]
    quote = row_map.guest.quote if row_map.guest is not None else ""
    for variant in dict.fromkeys((row_map.before, row_map.after)) if quote else ():
        said = (note for run in runs if run.variant == variant for note in run.notes)
        notes += [f"{variant}: {note}" for note in said if note.startswith(quote)][:1]
    return tuple(notes)


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
    if result.target == KERNEL_TARGET and row_map.guest is not None and row_map.guest.reason:
        return Measured(None, None, reason=row_map.guest.reason)
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
            return f"{skip.reason} ({skip.remedy})" if skip.remedy else skip.reason
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
