"""Tables must survive as part of a commit message, through a real `git am`."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.commit_text import WIDTH, ascii_text, columns, finish, paragraph, two_sided
from mqlab.model import Experiment, Metric, Variant
from mqlab.published import Range, load_thread
from mqlab.records import ResultRecord, RunRecord, Skip
from mqlab.reproduction import (
    CountPair,
    Reproduction,
    ReproductionRow,
    compare_with_published,
    with_sim,
)
from mqlab.result import Result


def result(experiment: Experiment, **changes: object) -> Result:
    runs = tuple(
        RunRecord(
            variant.id, case.id, run, order, 1 + run, datetime.now(UTC),
            {"wait_ms": np.array([4.0, 4.1]) / (1 + order), "total_ms": np.array([40.0])},
            fingerprint={"kernel": "model of Linux 7.3", "target": "sim"},
        )
        for run in range(2)
        for case in experiment.cases
        for order, variant in enumerate(experiment.variants_of(case))
    )  # fmt: skip
    record = ResultRecord(experiment, "sim", 1, datetime.now(UTC), "0.1.0", "virtual time", runs)
    return Result(replace(record, **changes))  # type: ignore[arg-type]


def reproduction(thread_id: str) -> Reproduction:
    thread = load_thread(thread_id)
    rows = tuple(
        ReproductionRow(
            thread.id, row.id, row.condition, row.metric, row.unit, row.direction, "sim",
            row.before, row.after, 123456.789, 0.000123, 0.05, 12.34, 0.5, 45.6, "predicted", "off",
            "misses 50 % of the published effect, and says so at a length that no single line could hold",
        )
        for row in thread.rows
    )  # fmt: skip
    return Reproduction(rows, ())


def check_lines(text: str) -> None:
    assert text.isascii()
    assert text.endswith("\n")
    assert "\n\n\n" not in text
    for line in text.splitlines():
        assert len(line) <= WIDTH
        assert not line or line.startswith("  ")
        assert line == line.rstrip()
        assert not line.lstrip().startswith(("#", "---", "diff -", "Index:", ">8"))


def git(folder: Path, *arguments: str, text: str | None = None) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments],
        cwd=folder, input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def through_git_am(folder: Path, body: str) -> str:
    """The body as it stands in the log after `git am` applied it as a mail."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    (folder / "a").write_text("1\n")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "first")
    mail = f"""From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: A <a@b>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: [PATCH] block: change a

Measured:

{body}
Signed-off-by: A <a@b>
---
 a | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/a b/a
--- a/a
+++ b/a
@@ -1 +1 @@
-1
+2
--
2.43.0

"""
    git(folder, "am", "--scissors", text=mail)
    log = git(folder, "log", "-1", "--format=%B")
    start = log.index("Measured:\n\n") + len("Measured:\n\n")
    return log[start : log.index("\nSigned-off-by: A")]


@pytest.mark.parametrize("thread", ["tags-srcu", "nvme-ns-remove", "plug-batch", "quiesce-rt"])
def test_a_reproduction_survives_git_am(tmp_path: Path, thread: str) -> None:
    table = reproduction(thread).table()
    check_lines(table)
    assert through_git_am(tmp_path / "repo", table) == table


def test_a_result_survives_git_am(tmp_path: Path, waits: Experiment) -> None:
    table = result(waits, skips=(Skip("after", "long", "no patched kernel", "build one"),)).table()
    check_lines(table)
    assert through_git_am(tmp_path / "repo", table) == table


def test_hostile_names_survive_git_am(tmp_path: Path, waits: Experiment) -> None:
    hostile = replace(
        waits,
        id="# diff --git a/b",
        title="--- >8 --- \u00b5s \u2192 \u4e2d" + "x" * 90,
        variants=(
            *(replace(v, title="t") for v in waits.variants),
            Variant("a-variant-with-a-name-that-is-too-long-for-its-column-by-far", "t", {}),
        ),
        metrics=(*waits.metrics, Metric("other_ms", "ms", "lower")),
    )
    table = result(hostile).table()
    assert table.isascii()
    assert all(line.startswith("  ") for line in table.splitlines() if line)
    assert through_git_am(tmp_path / "repo", table) == table


def test_under_every_table_stands_what_it_was_measured_on(waits: Experiment) -> None:
    text = " ".join(result(waits, profile="published").table().split())
    for part in (
        "model of Linux 7.3",
        "HZ 1000",
        "target sim",
        "virtual time",
        "2 runs",
        "profile published",
    ):
        assert part in text
    assert "blind to caches" not in text
    counting = replace(waits, metrics=(*waits.metrics, Metric("work", "instructions", "lower")))
    assert "blind to caches" not in " ".join(result(counting).table().split())
    counted = tuple(
        replace(run, samples={**run.samples, "work": np.array([9.0])}) for run in result(counting).runs
    )
    assert "blind to caches" in " ".join(result(counting, runs=counted).table().split())
    assert "broken off before its end" in " ".join(result(waits, partial=True).table().split())


def test_a_row_shows_both_sides_ratios_errors_and_a_range_as_a_range() -> None:
    lines = reproduction("quiesce-rt").table().splitlines()
    start = next(
        i for i, line in enumerate(lines) if "irq threads in D [threads]" in line and "8 MSI" in line
    )
    assert lines[start].endswith("predicted, off")
    assert lines[start + 1].split() == ["published", "6-8", "0", "0.0500"]
    assert lines[start + 2].split() == ["measured", "123457", "0.0001230", "12.3", "50.0", "%", "4560", "%"]
    assert lines[start + 3].startswith("    off: misses 50 %")


def test_published_sim_and_real_kernel_stand_side_by_side() -> None:
    sim = reproduction("tags-srcu").rows
    kernel = tuple(replace(row, target="vm", measured_before=120000.0, basis="measured") for row in sim)
    counted = replace(
        with_sim(kernel, sim)[0],
        counts=(CountPair("calls_per_op:srcu_barrier", "calls", 1.0, 0.0),),
        notes=("over the runs, ms: before 3.9 to 4.1",),
    )
    text = Reproduction((counted,), ()).table()
    check_lines(text)
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "DEL_DEV p50, serial [ms]" in line)
    assert lines[start + 1].split()[:3] == ["published", "3.45", "0.17"]
    assert lines[start + 2].split()[:3] == ["sim", "123457", "0.0001230"]
    assert lines[start + 3].split()[:4] == ["real", "kernel", "120000", "0.0001230"]
    assert lines[start + 4].split() == ["calls", "of", "srcu_barrier", "1.000", "0", "0"]
    assert lines[-1] != ""
    assert any("over the runs, ms: before 3.9 to 4.1" in line for line in lines)


def test_figures_of_other_sizes_are_shown_and_not_held_against_the_published_ones() -> None:
    from mqlab.discovery import find_experiment

    whole = find_experiment("tags-srcu").selected(["before", "patch-1"], ["ublk-1000-serial"])
    runs = tuple(
        RunRecord(
            variant, "ublk-1000-serial", 0, i, 1, datetime.now(UTC), {"del_dev_ms": np.array([value])}
        )
        for i, (variant, value) in enumerate((("before", 3.45), ("patch-1", 0.17)))
    )  # fmt: skip

    def row(experiment: Experiment) -> ReproductionRow:
        record = ResultRecord(experiment, "sim", 1, datetime.now(UTC), "0.1.0", "virtual time", runs)
        return compare_with_published(
            load_thread("tags-srcu"), Result(record), frozenset(), "predicted", True
        )[0]

    assert row(whole).status == "met"
    assert row(whole.with_settings({"devices": 1000})).status == "met"
    changed = row(whole.with_settings({"devices": 100}))
    assert (changed.status, changed.measured_before, changed.effect_error) == ("skipped", 3.45, None)
    assert changed.reason == "measured with devices 100: not what was published"


@given(st.text(max_size=200), st.text(max_size=40))
def test_any_text_is_made_fit(text: str, label: str) -> None:
    lines = [*paragraph(text), *columns(label, ("1", "2"), (10, 10)), *two_sided(text, "met")]
    made = finish(lines)
    assert made.isascii()
    assert all(line == line.rstrip() for line in made.splitlines())
    assert ascii_text(text).isascii()
    if all(len(word) < 60 for word in text.split() + label.split()):
        assert all(len(line) <= WIDTH for line in made.splitlines())


def test_rows_are_compared_in_the_unit_of_the_thread() -> None:
    from mqlab.discovery import find_experiment

    experiment = find_experiment("tags-srcu").selected(["before", "patch-1"], ["ublk-1000-serial"])
    values = {"before": 19500.0, "patch-1": 14900.0}
    runs = tuple(
        RunRecord(
            variant, "ublk-1000-serial", run, 2 * run + i, 1, datetime.now(UTC),
            {"delete_total_ms": np.array([values[variant] + run])},
        )
        for run in range(3)
        for i, variant in enumerate(values)
    )  # fmt: skip
    record = ResultRecord(experiment, "sim", 1, datetime.now(UTC), "0.1.0", "virtual time", runs)
    fitted = frozenset({"tags-srcu/delete-1000-serial"})
    rows = {
        r.row: r
        for r in compare_with_published(load_thread("tags-srcu"), Result(record), fitted, "predicted", True)
    }
    total = rows["delete-1000-serial"]
    assert (total.measured_before, total.measured_after) == (pytest.approx(19.501), pytest.approx(14.901))
    assert (total.status, total.basis, total.unit) == ("met", "calibrated", "s")
    assert (rows["del-dev-p50-serial"].status, rows["del-dev-p50-serial"].basis) == ("skipped", "predicted")
    assert rows["del-dev-p50-serial"].reason == "the workload gave no del_dev_ms"
    assert rows["stress-without-reports"].reason == "no case measures it yet"
    assert ReproductionRow.from_dict(total.to_dict()) == total


def test_a_range_goes_through_json_as_low_and_high() -> None:
    row = reproduction("quiesce-rt").rows[1]
    assert row.published_before == Range(6, 8)
    assert row.to_dict()["published_before"] == {"low": 6, "high": 8}
    assert ReproductionRow.from_dict(row.to_dict()) == row


def test_a_claim_about_one_side_says_why_the_other_is_empty() -> None:
    from mqlab.discovery import find_experiment

    experiment = find_experiment("nvme-ns-remove").selected(["before"], ["tcp-64"])
    samples = {"disconnect_ms": np.array([1250.0])}
    runs = (RunRecord("before", "tcp-64", 0, 0, 1, datetime.now(UTC), samples),)
    made = Result(ResultRecord(experiment, "sim", 1, datetime.now(UTC), "0.1.0", "virtual time", runs))
    rows = compare_with_published(load_thread("nvme-ns-remove"), made, frozenset(), "predicted", True)
    (row,) = (r for r in rows if r.row == "over-a-second")
    assert (row.status, row.measured_after) == ("met", None)
    assert row.reason == "the claim is about before alone"
