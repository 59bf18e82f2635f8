"""Plots: axes that can be read, and files that are pictures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from mqlab.model import Curve, Experiment
from mqlab.plot import drawn_curves, plot_curves, save_png
from mqlab.published import Row, load_thread
from mqlab.records import ResultRecord, RunRecord
from mqlab.reproduction import Reproduction, ReproductionRow
from mqlab.result import Result


def reproduction(thread_id: str, before: float | None = None) -> Reproduction:
    def made(row: Row) -> ReproductionRow:
        told = (row.thread, row.id, row.condition, row.metric, row.unit, row.direction, "sim")
        sides = (row.before, row.after, before, before)
        return ReproductionRow(*told, *sides, None, None, None, None, "predicted", "skipped", "not run")

    rows = tuple(made(row) for row in load_thread(thread_id).rows)
    return Reproduction(rows, ())


def result(experiment: Experiment, scale: float = 1) -> Result:
    runs = tuple(
        RunRecord(v.id, c.id, 0, 0, 1, datetime.now(UTC), {"wait_ms": np.array([scale * (i + 1)])})
        for i, v in enumerate(experiment.variants)
        for c in experiment.cases
    )
    return Result(ResultRecord(experiment, "sim", 1, datetime.now(UTC), "0", "virtual time", runs))


def labels(figure: Figure) -> list[str]:
    return [axes.get_xlabel() for axes in figure.axes]


@pytest.mark.parametrize("thread", ["tags-srcu", "nvme-ns-remove", "plug-batch", "quiesce-rt"])
@pytest.mark.parametrize("before", [None, 0.0, 3.0])
def test_every_axis_names_its_unit_and_the_picture_is_one(thread: str, before: float | None) -> None:
    figure = reproduction(thread, before).plot()
    units = {row.unit for row in load_thread(thread).rows if row.before is not None or before is not None}
    assert units <= {label.split(",")[0] for label in labels(figure)}
    if before is None:
        assert save_png(figure, dpi=40).startswith(b"\x89PNG")


def test_values_over_decades_stand_on_a_logarithmic_axis_even_with_a_zero_among_them() -> None:
    figure = reproduction("tags-srcu").plot()
    axes = next(a for a in figure.axes if a.get_xlabel().startswith("ms"))
    assert axes.get_xlabel() == "ms, logarithmic"
    assert axes.get_xscale() == "symlog"
    ticks = [t.get_text() for t in axes.get_xticklabels()]
    assert "0" in ticks
    assert "0.5" in ticks
    low, high = axes.get_xlim()
    assert low <= 0
    assert high >= 3.45


def test_a_panel_without_any_ratio_has_no_scale() -> None:
    ratios = [
        axes for axes in reproduction("tags-srcu", 1.0).plot().axes if axes.get_title("left") == "ratio"
    ]
    assert ratios
    for axes in ratios:
        assert axes.get_xlabel() == "no row has a ratio"
        assert list(axes.get_xticks()) == []


def test_a_range_lies_within_its_axis() -> None:
    figure = reproduction("quiesce-rt").plot()
    axes = next(a for a in figure.axes if a.get_xlabel().startswith("threads"))
    assert axes.get_xlim()[1] > 8


def test_an_axis_that_does_not_start_at_zero_says_so(waits: Experiment) -> None:
    close = replace(waits, variants=waits.variants[:1])
    assert "does not start at zero" in labels(result(close).plot())[0]
    assert "does not start at zero" not in labels(result(waits).plot())[0]


def test_curves_show_both_variants_and_what_a_real_kernel_did(waits: Experiment) -> None:
    curve = Curve(
        "over count", "count", "wait_ms", ("short", "long"), "before", "after", ((5, 1, 2),), "Linux"
    )
    figure = plot_curves(result(replace(waits, curves=(curve,))))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "waits"
    assert axes.get_ylabel() == "wait_ms [ms]"
    legend = axes.get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["before, sim", "after, sim", "before, Linux", "after, Linux"]
    assert list(axes.lines[0].get_xdata()) == [5, 50]


def test_empty_results_still_give_a_figure(waits: Experiment) -> None:
    empty: Any = replace(result(waits).record, runs=())
    assert isinstance(Result(empty).plot(), Figure)
    assert isinstance(Reproduction((), ()).plot(), Figure)


def test_a_notebook_shows_the_figure_by_itself(waits: Experiment) -> None:
    figure: Any = result(waits).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_sim_is_drawn_between_published_and_real_kernel() -> None:
    row = ReproductionRow(
        "tags-srcu", "del-dev-p50-serial", "DEL_DEV", "del_dev_ms", "ms", "lower", "vm", 3.45, 0.17,
        4.0, 0.05, 0.0493, 0.0125, 0.4, 0.16, "measured", "off", "", sim_before=4.1, sim_after=0.06,
    )  # fmt: skip

    def legend(shown: ReproductionRow) -> list[str]:
        return [text.get_text() for text in Reproduction((shown,), ()).plot().legends[0].get_texts()]

    assert legend(row) == [
        *("published, before", "published, after", "sim, before", "sim, after"),
        *("measured, before", "measured, after"),
    ]
    assert not any("sim" in label for label in legend(replace(row, sim_before=None, sim_after=None)))
    values = {x for line in Reproduction((row,), ()).plot().axes[0].get_lines() for x in line.get_xdata()}
    assert {3.45, 4.1, 4.0, 0.06} <= values


def test_a_curve_of_one_point_is_none_and_its_case_gets_a_panel(waits: Experiment) -> None:
    curve = Curve("over count", "count", "wait_ms", ("short",), "before", "after")
    done = result(replace(waits, curves=(curve,)))
    assert drawn_curves(done) == []
    assert any("short" in axes.get_title(loc="left") for axes in done.plot().axes)


def test_a_curve_shows_the_side_that_was_measured_where_the_other_was_not(waits: Experiment) -> None:
    curve = Curve("over count", "count", "wait_ms", ("short", "long"), "before", "after")
    whole = result(replace(waits, curves=(curve,)))
    before = tuple(run for run in whole.runs if run.variant == "before")
    (axes,) = plot_curves(Result(replace(whole.record, runs=before))).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["before, sim"]
