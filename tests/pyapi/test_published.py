from __future__ import annotations

from pathlib import Path

import pytest

import mqlab
from mqlab.errors import UsageError
from mqlab.model import STATISTICS
from mqlab.published import Bounds, Range, load_thread, missing_figures, parse_thread, thread_ids, threads
from mqlab.units import same_dimension

GOOD = """
[thread]
id = "t"
title = "a title"
subject = "a subject"
date = 2026-01-02
kernel = "7.3"
machine = "a machine"

[[row]]
id = "r"
condition = "a condition"
metric = "wait_ms"
unit = "ms"
direction = "lower"
before = 4
after = 1
where = "a table"
"""


def test_the_four_threads_are_there_with_all_their_figures() -> None:
    assert thread_ids() == ("nvme-ns-remove", "plug-batch", "quiesce-rt", "tags-srcu")
    figures = {t.id: sum(r.kind == "figure" for r in t.rows) for t in threads()}
    # tags-srcu: table of 5 and follow-up of 2; nvme: two tables of 4 cells with two boots, and the cover's
    # ranges; plug-batch: 5 pairs and a CPU share; quiesce-rt: throughput and threads.
    assert figures == {"tags-srcu": 7, "nvme-ns-remove": 17, "plug-batch": 6, "quiesce-rt": 2}


def test_a_range_stays_a_range() -> None:
    assert load_thread("quiesce-rt").row("irq-threads-in-d").before == Range(6, 8)
    cover = load_thread("nvme-ns-remove").row("cover-64-tcp")
    assert (cover.before, cover.after) == (Range(1201, 1308), Range(115, 124))


def test_each_boot_is_a_row_of_its_own() -> None:
    thread = load_thread("nvme-ns-remove")
    assert [thread.row(f"patch-1-64-tcp-boot-{b}").before for b in (1, 2)] == [1201, 1308]


def test_every_claim_says_what_measures_it_and_every_thread_where_it_is_silent() -> None:
    for thread in threads():
        assert thread.notes
        for row in thread.rows:
            assert row.where
            assert row.kind == "figure" or row.measured_by


def test_every_row_map_of_a_shipped_experiment_names_a_row_in_a_unit_that_converts() -> None:
    for experiment in mqlab.list_experiments():
        thread = load_thread(experiment.thread)
        for row_map in experiment.rows:
            row = thread.row(row_map.row)
            assert same_dimension(experiment.metric(row_map.metric).unit, row.unit)
            assert experiment.metric(row_map.metric).direction == row.direction
            assert row_map.statistic in STATISTICS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("before = 4\nafter = 1\n", "", "neither figures nor an expectation"),
        ('unit = "ms"\n', "", "has no unit"),
        ('direction = "lower"', 'direction = "down"', "direction is 'down'"),
        ("before = 4", "before = -4", "before is -4"),
        ("before = 4", "before = nan", "before is nan"),
        ("before = 4", "before = { low = 8, high = 6 }", "is no range"),
        ("before = 4", 'before = "4 ms"', "before is '4 ms'"),
        ("before = 4", 'before = 4\nremark = "x"', "unknown key 'remark'"),
        ("before = 4", 'before = 4\nkind = "claim"', "does not say what measures"),
        ("before = 4", "before = 4\nexpect = { ratio = { over = 1 } }", "unknown key 'over'"),
        ("date = 2026-01-02\n", "", "has no date"),
        ("[thread]", "[threads]", "has no [thread]"),
        ("[thread]", "[thread", "is no TOML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        parse_thread(GOOD.replace(old, new), "t.toml")
    assert message in caught.value.message
    assert "t.toml" in caught.value.message


def test_two_rows_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two rows are called 'r'"):
        parse_thread(GOOD + GOOD[GOOD.index("[[row]]") :], "t.toml")


def test_figures_are_looked_up_in_the_thread_file(tmp_path: Path) -> None:
    thread = load_thread("quiesce-rt")
    (tmp_path / "quiesce-rt.txt").write_text("Before: 153 MB/s, 6-8 IRQ threads\nin D-state; after 640 MB/s")
    assert missing_figures(thread, tmp_path) == ["irq-threads-in-d"]
    with pytest.raises(UsageError, match="cannot read the thread file"):
        missing_figures(load_thread("tags-srcu"), tmp_path)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        (Bounds(at_least=0.995, at_most=1.005), (0.995, 1, 1.005), (0.99, 1.01), "0.995 to 1.005"),
        (Bounds(below=1), (0.5,), (1, 2), "below 1"),
        (Bounds(above=0), (0.1,), (0,), "above 0"),
        (Bounds(at_most=0), (0,), (1,), "at most 0"),
    ],
)
def test_bounds(bounds: Bounds, inside: tuple[float], outside: tuple[float], words: str) -> None:
    assert all(bounds.hold(v) for v in inside)
    assert not any(bounds.hold(v) for v in outside)
    assert str(bounds) == words
