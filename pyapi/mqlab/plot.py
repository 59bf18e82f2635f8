"""Plots: published and measured side by side. Made without pyplot, so nothing global changes."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from mqlab.model import Curve, Metric
from mqlab.provenance import measured_on
from mqlab.published import Range, Side
from mqlab.statistic import over_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mqlab.across import Matrix
    from mqlab.reproduction import Reproduction, ReproductionRow
    from mqlab.result import Result

__all__ = ["drawn_curves", "plot_curves", "plot_matrix", "plot_reproduction", "plot_result", "save_png"]

# Two hues that stay apart for the colour-blind and in grey.
PUBLISHED: Final = "#4c4c4c"
MEASURED: Final = "#d55e00"
SIM: Final = "#56b4e9"
_SERIES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4c4c4c", "#a6761d")
_DECADES_FOR_LOG: Final = 8.0  # highest over lowest value from which on a linear axis hides the lowest
_LETTERS_PER_INCH: Final = 16.0
_ROW_INCHES: Final = 0.52
_PANEL_INCHES: Final = 1.1


class _NotebookFigure(Figure):
    """A Figure that a notebook shows by itself, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        return save_png(self)


def save_png(figure: Figure, dpi: int = 130) -> bytes:
    """The figure as a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _figure(width: float, height: float) -> Figure:
    figure = _NotebookFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _under(figure: Figure, text: str) -> None:
    """What it was measured on, in as many lines as the figure's width asks for."""
    letters = int(figure.get_figwidth() * _LETTERS_PER_INCH)
    figure.supxlabel(textwrap.fill(text, letters), fontsize=7.5, color="#555555")


def plot_reproduction(reproduction: Reproduction) -> Figure:
    """For each unit of each thread a panel with both sides of each row, and beside it the ratios."""
    panels: dict[tuple[str, str], list[ReproductionRow]] = {}
    for row in reproduction.rows:
        if (
            row.published_before is not None
            or row.measured_before is not None
            or row.measured_after is not None
        ):
            panels.setdefault((row.thread, row.unit), []).append(row)
    heights = [len(rows) * _ROW_INCHES + _PANEL_INCHES for rows in panels.values()]
    figure = _figure(10, max(sum(heights), 2.5) + 0.5)
    if panels:
        shape = {"height_ratios": heights, "width_ratios": [2.2, 1]}
        grid = figure.subplots(len(panels), 2, squeeze=False, gridspec_kw=shape)
        for (axes, beside), ((thread, unit), rows) in zip(grid, panels.items(), strict=True):
            _row_panel(axes, f"{thread}: before and after, {unit}", unit, rows)
            _ratio_panel(beside, rows)
        _legend(figure, with_sim=any(row.sim_before is not None for row in reproduction.rows))
    own = {row.target for row in reproduction.rows}
    shown = [result for result in reproduction.results if result.target in own]
    _under(figure, measured_on(shown))
    return figure


def _row_panel(axes: Axes, title: str, unit: str, rows: Sequence[ReproductionRow]) -> None:
    values: list[float] = []
    for position, row in enumerate(rows):
        for offset, colour, before, after in (
            (-0.2, PUBLISHED, row.published_before, row.published_after),
            (0.0, SIM, row.sim_before, row.sim_after),
            (0.2, MEASURED, row.measured_before, row.measured_after),
        ):
            values += _pair(axes, position + offset, colour, before, after)
    axes.set_yticks(range(len(rows)), [row.condition for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title(title, fontsize=9, loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    _scale(axes.xaxis, unit, values)


def _ratio_panel(axes: Axes, rows: Sequence[ReproductionRow]) -> None:
    """after/before of both, and the status: small effects show here that no axis of values could show."""
    values = [1.0]
    for position, row in enumerate(rows):
        for offset, colour, ratio in (
            (-0.2, PUBLISHED, row.published_ratio),
            (0.0, SIM, row.sim_after / row.sim_before if row.sim_before and row.sim_after else None),
            (0.2, MEASURED, row.measured_ratio),
        ):
            if ratio is not None:
                axes.plot([1, ratio], [position + offset] * 2, color=colour, linewidth=1.2)
                axes.plot([ratio], [position + offset], "o", color=colour, markersize=5.5)
                values.append(ratio)
        place = axes.get_yaxis_transform()
        axes.text(1.02, position, row.status, transform=place, fontsize=7.5, va="center", clip_on=False)
    axes.axvline(1, color="#999999", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), [""] * len(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title("ratio", fontsize=9, loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    if len(values) > 1:
        _scale(axes.xaxis, "after / before", values, most_ticks=6)
    else:
        axes.set_xticks([])
        axes.set_xlabel("no row has a ratio")


def _pair(axes: Axes, y: float, colour: str, before: Side, after: Side) -> list[float]:
    """Draws both sides (hollow before, full after, a thick bar for a range) and returns all values."""
    middles: list[float] = []
    ends: list[float] = []
    for side, face in ((before, "white"), (after, colour)):
        if side is None:
            continue
        if isinstance(side, Range):
            ends += [side.low, side.high]
            axes.plot(ends[-2:], [y, y], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
        middles.append(side.middle if isinstance(side, Range) else side)
        axes.plot(middles[-1:], [y], "o", color=colour, markerfacecolor=face, markersize=5.5, zorder=3)
    if len(middles) == 2:
        axes.plot(middles, [y, y], color=colour, linewidth=1.2, zorder=2)
    return [*middles, *ends]


def _legend(figure: Figure, with_sim: bool) -> None:
    from matplotlib.lines import Line2D

    shown = ((PUBLISHED, "published"), *(((SIM, "sim"),) if with_sim else ()), (MEASURED, "measured"))
    handles = [
        Line2D([], [], color=colour, marker="o", markerfacecolor=face, linestyle="-", label=label)
        for colour, name in shown
        for face, label in (("white", f"{name}, before"), (colour, f"{name}, after"))
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=2 * len(shown), fontsize=8, frameon=False
    )


def plot_result(result: Result) -> Figure:
    """A panel for each metric and case with the runs of each variant; drawn curves stand in `plot_curves`."""
    drawn = {case for curve in drawn_curves(result) for case in curve.cases}
    panels = [
        (case.id, metric, rows)
        for metric in result.definition.metrics
        for case in result.definition.cases
        if case.id not in drawn and (rows := _by_variant(result, case.id, metric))
    ]
    if not panels:
        return plot_curves(result)
    pairs = [panels[i : i + 2] for i in range(0, len(panels), 2)]
    heights = [max(len(rows) for _, _, rows in pair) * 0.26 + 0.85 for pair in pairs]
    figure = _figure(12, sum(heights) + 0.4)
    grid = figure.subplots(len(pairs), 2, squeeze=False, gridspec_kw={"height_ratios": heights})
    for line, pair in zip(grid, pairs, strict=True):
        for axes, (case, metric, rows) in zip(line, pair, strict=False):
            _variant_panel(axes, f"{case}: {metric.name}, {metric.direction} is better", metric.unit, rows)
        for axes in line[len(pair) :]:
            axes.set_visible(False)
    _under(figure, measured_on([result]))
    return figure


def plot_curves(result: Result) -> Figure:
    """Only the experiment's curves, of which there are two points at least."""
    curves = drawn_curves(result)
    figure = _figure(9, max(len(curves), 1) * 3.4 + 0.4)
    if curves:
        grid = figure.subplots(len(curves), 1, squeeze=False)[:, 0]
        for axes, curve in zip(grid, curves, strict=True):
            _curve_panel(axes, result, curve)
    _under(figure, measured_on([result]))
    return figure


def drawn_curves(result: Result) -> list[Curve]:
    """The curves of the experiment that were measured; one point is none."""
    return [c for c in result.definition.curves if len(_curve_points(result, c, c.before)) > 1]


def plot_matrix(matrix: Matrix) -> Figure:
    """Every run of each kernel, oldest release at the left, and a line through the medians."""
    figure = _figure(max(6.0, 1.1 * len(matrix.points) + 2), 4.2)
    axes = figure.subplots()
    places = list(range(len(matrix.points)))
    for place, point in zip(places, matrix.points, strict=True):
        axes.plot([place] * len(point.values), point.values, "o", color=MEASURED, markersize=5, alpha=0.6)
        if not point.values:
            axes.text(
                place, 0.02, "skipped", transform=axes.get_xaxis_transform(), rotation=90, fontsize=8,
                ha="center", va="bottom", color="#777777",
            )  # fmt: skip
    measured = [
        (place, p.value) for place, p in zip(places, matrix.points, strict=True) if p.value is not None
    ]
    if measured:
        axes.plot(*zip(*measured, strict=True), "-", color=MEASURED, linewidth=1.2)
        axes.set_ylim(bottom=0)
    axes.set_xticks(places, [p.release for p in matrix.points], fontsize=8, rotation=30, ha="right")
    axes.set_ylabel(f"{matrix.metric.name} [{matrix.metric.unit}]", fontsize=8)
    axes.set_title(f"{matrix.experiment}, {matrix.case}", fontsize=9, loc="left")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    _under(figure, measured_on(matrix.results))
    return figure


_Panel = dict[str, tuple[str, list[float]]]


def _by_variant(result: Result, case: str, metric: Metric) -> _Panel:
    """The colour and the values of each variant that ran; a variant has one colour in all panels."""
    found = {
        variant.id: (_SERIES[i % len(_SERIES)], result.values(case, variant.id, metric.name))
        for i, variant in enumerate(result.definition.variants)
    }
    return {variant: (colour, values) for variant, (colour, values) in found.items() if values}


def _variant_panel(axes: Axes, title: str, unit: str, rows: _Panel) -> None:
    for position, (colour, values) in enumerate(rows.values()):
        axes.plot(values, [position] * len(values), "o", color=colour, markersize=5, alpha=0.6)
        axes.plot([over_runs(values)], [position], "|", color=colour, markersize=15, markeredgewidth=2)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_title(title, fontsize=9, loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    _scale(axes.xaxis, unit, [value for _, values in rows.values() for value in values])


def _curve_points(result: Result, curve: Curve, variant: str) -> list[tuple[float, float]]:
    points = []
    for case in curve.cases:
        values = result.values(case, variant, curve.metric)
        if values:
            points.append((float(result.definition.case(case).params[curve.parameter]), over_runs(values)))
    return sorted(points)


def _curve_panel(axes: Axes, result: Result, curve: Curve) -> None:
    metric = result.definition.metric(curve.metric)
    for variant, colour in ((curve.before, PUBLISHED), (curve.after, MEASURED)):
        points = _curve_points(result, curve, variant)
        if points:  # the other side may not have been measured
            label = f"{variant}, {result.target}"
            axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=4, label=label)
    if curve.reference:
        xs, before, after = zip(*curve.reference, strict=True)
        axes.plot(
            xs, before, "s--", color=PUBLISHED, markersize=4, alpha=0.6, label=f"before, {curve.source}"
        )
        axes.plot(xs, after, "s--", color=MEASURED, markersize=4, alpha=0.6, label=f"after, {curve.source}")
    axes.set_title(curve.title, fontsize=9, loc="left")
    described = {p.name: f"{p.help} [{p.unit}]" if p.unit else p.help for p in result.definition.parameters}
    axes.set_xlabel(described.get(curve.parameter, curve.parameter), fontsize=8)
    axes.set_ylabel(f"{metric.name} [{metric.unit}]", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=7.5, frameon=False)


def _scale(axis: Any, unit: str, values: Sequence[float], most_ticks: int = 11) -> None:
    """A logarithmic axis when the values span about a decade or more, else a linear one."""
    positive = [value for value in values if value > 0]
    low, high = min(values, default=0.0), max(values, default=1.0)
    axes, suffix = axis.axes, ""
    if positive and low >= 0 and max(positive) / min(positive) >= _DECADES_FOR_LOG:
        suffix = ", logarithmic"
        start = min(positive) / 1.6
        if low > 0:
            axes.set_xscale("log")
        else:  # zero has no logarithm: from half the smallest value down to it the axis is linear
            start = -min(positive) / 20
            axes.set_xscale("symlog", linthresh=min(positive) / 2, linscale=0.3)
        axes.set_xlim(start, high * 1.6)
        axis.set_major_locator(FixedLocator(_log_ticks(min(positive), high, most_ticks, zero=low == 0)))
        axis.set_minor_locator(NullLocator())
    elif low > 0 and high - low < 0.3 * high:
        suffix = ", axis does not start at zero"
        margin = max(0.2 * (high - low), 0.005 * high)
        axes.set_xlim(low - margin, high + margin)
    else:
        axes.set_xlim(min(0.0, low), high * 1.08 or 1.0)
    axis.set_major_formatter(FuncFormatter(lambda value, _position: _tick(value)))
    axes.set_xlabel(f"{unit}{suffix}", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)


def _log_ticks(low: float, high: float, most: int, zero: bool) -> list[float]:
    """1, 2, 5, 10, ... where there is room, else decades alone."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    inside: list[float] = []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**e for e in exponents for step in steps]
        inside = [tick for tick in ticks if low / 1.6 <= tick <= high * 1.6]
        if len(inside) <= most:
            break
    return [0.0, *inside] if zero else inside


def _tick(value: float) -> str:
    """A short label: 0.25, 640, 553k, 6.4M."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.5g}{suffix}"
    return f"{value:.4g}"
