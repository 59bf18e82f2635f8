"""Results and reproductions as text for a commit message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mqlab.commit_text import columns, finish, number, paragraph, percent, ratio, two_sided
from mqlab.guest import KERNEL_TARGET
from mqlab.model import Case, Metric
from mqlab.provenance import measured_on
from mqlab.published import Range, Side, load_thread
from mqlab.statistic import over_runs

if TYPE_CHECKING:
    from mqlab.across import Matrix
    from mqlab.foreseeing import Forecast
    from mqlab.reproduction import CountPair, Reproduction, ReproductionRow
    from mqlab.result import Result
    from mqlab.stressing import StressReport

__all__ = ["forecast_table", "matrix_table", "reproduction_table", "result_table", "stress_table"]

# Columns: before, after, ratio, effect error, before error; and for a result: value, range over runs, ratio.
_ROW: Final = (11, 11, 9, 8, 8)
_RUN: Final = (12, 20, 9)
_STRESS: Final = (12, 20)
_REPORT_LINES: Final = 25
# How near the sim is meant to come to a deterministic guest.
_NEAR: Final = 0.15


def result_table(result: Result) -> str:
    """Each case with its metrics: a line a variant, with the ratio to the first variant that ran."""
    definition = result.definition
    lines = [*paragraph(f"{definition.id}: {definition.title}"), ""]
    for case in definition.cases:
        for metric in definition.metrics:
            lines += _metric_block(result, case, metric)
    for skip in result.skips:
        remedy = f" ({skip.remedy})" if skip.remedy else ""
        lines += paragraph(f"skipped: {skip.case}, {skip.variant}: {skip.reason}{remedy}", 2, 2)
    return finish([*lines, "", *paragraph(measured_on([result]), 2, 2)])


def _metric_block(result: Result, case: Case, metric: Metric) -> list[str]:
    values = {
        v.id: found
        for v in result.definition.variants_of(case)
        if (found := result.values(case.id, v.id, metric.name))
    }
    if not values:
        return []
    many = any(len(r.samples.get(metric.name, ())) > 1 for r in result.runs if r.case == case.id)
    conditions = [run.conditions for run in result.runs if run.case == case.id]
    own = conditions[0] if conditions else {}
    told = {name: own.get(name, value) for name, value in case.params.items()}
    params = ", ".join(f"{name} {value}" for name, value in told.items())
    title = f"{case.id}: {metric.name}{' p50' if many else ''} [{metric.unit}], {metric.direction} is better"
    base = over_runs(next(iter(values.values())))
    lines = [
        *paragraph(title, 2, 2),
        *paragraph(params, 4),
        *columns("", ("value", "min - max", "ratio"), _RUN),
    ]
    for variant, found in values.items():
        value = over_runs(found)
        spread = f"{number(min(found))} - {number(max(found))}" if len(found) > 1 else ""
        against = ratio(value / base) if base and variant != next(iter(values)) else ""
        lines += columns(variant, (number(value), spread, against), _RUN)
    return [*lines, ""]


def matrix_table(matrix: Matrix) -> str:
    """A line a kernel: the value, the range over its runs, and the ratio to the kernel before it."""
    metric = matrix.metric
    params = ", ".join(f"{name} {value}" for name, value in matrix.params.items() if name != "hz")
    single = all(len(r.samples.get(metric.name, ())) <= 1 for result in matrix.results for r in result.runs)
    shown = metric.name if single else f"{metric.name} {matrix.statistic}"
    lines = [
        *paragraph(f"{matrix.experiment}, {matrix.case}: {shown} [{metric.unit}]", 2, 2),
        *paragraph(f"{params}; {metric.direction} is better", 4),
        "",
        *columns("", ("value", "min - max", "ratio"), _RUN),
    ]
    before: float | None = None
    for point in matrix.points:
        value = point.value
        if value is None:
            lines += paragraph(f"{point.release}: skipped: {point.reason}", 4, 2)
            continue
        many = len(point.values) > 1
        spread = f"{number(min(point.values))} - {number(max(point.values))}" if many else ""
        lines += columns(point.release, (number(value), spread, ratio(_over(value, before))), _RUN)
        before = value
    return finish([*lines, "", *paragraph(measured_on(matrix.results), 2, 2)])


def reproduction_table(reproduction: Reproduction) -> str:
    """A block for each thread: published and measured figures, both ratios, both errors, and the status.

    Where a real kernel was measured, the sim's figures stand between the two.
    """
    lines: list[str] = []
    for id_ in dict.fromkeys(row.thread for row in reproduction.rows):
        part = reproduction.thread(id_)
        lines += [*paragraph(f"{id_}: {load_thread(id_).title}", 2, 2), ""]
        lines += columns("", ("before", "after", "ratio", "effect", "before"), _ROW)
        lines += columns("", ("", "", "", "error", "error"), _ROW)
        for row in part.rows:
            lines += _row_block(row)
        counts = {s: sum(r.status == s for r in part.rows) for s in ("met", "off", "half", "skipped")}
        lines += ["", *paragraph(", ".join(f"{n} {s}" for s, n in counts.items() if n))]
        lines += _provenance(part)
        lines += [""]
    for remark in reproduction.remarks:
        lines += paragraph(remark, 2, 2)
    return finish(lines)


def _provenance(part: Reproduction) -> list[str]:
    target = part.rows[0].target
    own = [result for result in part.results if result.target == target]
    sim = [result for result in part.results if result.target != target]
    lines = paragraph(measured_on(own), 2, 2)
    if not sim:
        return lines
    lines += paragraph(f"Sim: {measured_on(sim)}", 2, 2)
    sides = [
        (predicted, measured)
        for row in part.rows
        for predicted, measured in (
            (row.sim_before, row.measured_before),
            (row.sim_after, row.measured_after),
        )
        if predicted is not None and measured
    ]
    if sides:
        near = sum(abs(predicted / measured - 1) <= _NEAR for predicted, measured in sides)
        lines += paragraph(
            f"{near} of {len(sides)} sides of the sim lie within {_NEAR:.0%} of the real kernel's.", 2, 2
        )
    return lines


def _row_block(row: ReproductionRow) -> list[str]:
    if row.status == "skipped" and not row.measured:
        return [*two_sided(f"{row.condition} [{row.unit}]", "skipped"), *paragraph(row.reason, 4, 2)]
    lines = two_sided(f"{row.condition} [{row.unit}]", f"{row.basis}, {row.status}")
    expect = load_thread(row.thread).row(row.row).expect
    if expect:
        lines += paragraph(
            "claimed: " + ", ".join(f"{name} {bounds}" for name, bounds in expect.items()), 4, 2
        )
    if row.published_before is not None or row.published_after is not None:
        cells = (_side(row.published_before), _side(row.published_after), ratio(row.published_ratio))
        lines += columns("published", (*cells, "", ""), _ROW)
    if row.sim_before is not None or row.sim_after is not None:
        sides = (number(row.sim_before), number(row.sim_after))
        lines += columns("sim", (*sides, ratio(_over(row.sim_after, row.sim_before)), "", ""), _ROW)
    measured = (
        number(row.measured_before),
        number(row.measured_after),
        ratio(row.measured_ratio),
        percent(row.effect_error),
        percent(row.before_error),
    )
    lines += columns("real kernel" if row.target == KERNEL_TARGET else "measured", measured, _ROW)
    for pair in row.counts:
        sides = (number(pair.before), number(pair.after))
        lines += columns(_counted(pair), (*sides, ratio(_over(pair.after, pair.before)), "", ""), _ROW)
    if row.reason:
        lines += paragraph(f"{row.status}: {row.reason}", 4, 2)
    for note in row.notes:
        lines += paragraph(note, 4, 2)
    return lines


def _counted(pair: CountPair) -> str:
    """srcu_barrier calls an operation, instructions an operation."""
    name, _, function = pair.metric.partition(":")
    if function:
        return f"calls of {function}"
    return name.replace("_per_op", "").replace("_per_io", " an I/O").replace("_", " ")


def _over(after: float | None, before: float | None) -> float | None:
    return after / before if after is not None and before else None


def forecast_table(forecast: Forecast) -> str:
    """Kernels to have, boots, what is left out, and about how long it takes."""
    lines = ["  kernels"]
    for kernel in forecast.kernels:
        todo = kernel.refusal or "; ".join(kernel.steps) or "there already"
        lines += paragraph(f"{kernel.source}: {todo}", 4, 4)
    lines += ["", "  boots"]
    for experiment, count in forecast.boots.items():
        lines += columns(experiment, (str(count),), (8,))
    if forecast.skipped:
        lines += ["", "  not measured"]
        reasons: dict[str, list[str]] = {}
        for what, reason in forecast.skipped:
            reasons.setdefault(reason, []).append(what)
        for reason, whats in reasons.items():
            others = f" and {len(whats) - 1} more" if len(whats) > 1 else ""
            lines += paragraph(f"{whats[0]}{others}: {reason}", 4, 4)
    took = forecast.seconds
    told = f"{took:.0f} s" if took < 90 else f"{took / 60:.0f} minutes"
    return finish([*lines, "", *paragraph(f"about {told} on a quiet machine", 2)])


def stress_table(report: StressReport) -> str:
    """What was covered and what the kernel reported."""
    found = len(report.reports)
    verdict = "no report" if report.clean else f"{found} report{'s' if found > 1 else ''} of the kernel"
    lines = [*paragraph(f"stress of {report.release}, {report.seconds} s: {verdict}", 2, 2), ""]
    lines += _covered(report.covered)
    for text in report.reports:
        said = text.splitlines()
        lines += ["", *(line for row in said[:_REPORT_LINES] for line in paragraph(row, 4, 2))]
        if len(said) > _REPORT_LINES:
            lines += paragraph(f"... {len(said) - _REPORT_LINES} more lines, see --json", 4)
    for note in report.notes:
        lines += paragraph(note, 4, 2)
    checkers = ", ".join(report.checkers) or "none"
    told = (
        f"Measured on: {report.release} ({report.kernel}), {report.cpus} CPUs, target vm, real time, "
        f"{report.accel}; checkers: {checkers}."
    )
    return finish([*lines, "", *paragraph(told, 2, 2)])


def _covered(counters: Mapping[str, int]) -> list[str]:
    """How often each operation was done and refused; the agent's counters are KIND:OPERATION:ERROR."""
    done: dict[str, int] = {}
    refused: dict[str, int] = {}
    odd: list[str] = []
    for name, count in sorted(counters.items()):
        kind, _, rest = name.partition(":")
        operation = rest.partition(":")[0].replace("_", " ")
        if kind == "done" and operation:
            done[operation] = done.get(operation, 0) + count
        elif kind == "expected" and operation:
            refused[operation] = refused.get(operation, 0) + count
        elif operation and count:
            odd.append(f"{kind.replace('_', ' ')}: {rest.replace('_', ' ')} ({count})")
    if not done and not refused:
        return []
    lines = columns("", ("done", "refused in a race"), _STRESS)
    for operation in sorted({*done, *refused}):
        cells = (str(done.get(operation, 0)), str(refused.get(operation, 0)))
        lines += columns(operation, cells, _STRESS)
    lines += columns("in all", (str(sum(done.values())), str(sum(refused.values()))), _STRESS)
    return [*lines, *(line for text in odd for line in paragraph(text, 4, 2))]


def _side(side: Side) -> str:
    if side is None:
        return "-"
    if isinstance(side, Range):
        return f"{side.low:.10g}-{side.high:.10g}"
    return f"{side:.10g}"
