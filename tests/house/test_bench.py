"""Merging what the benchmarks say: medians, peers, ratios and counters."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Script = Callable[[str], ModuleType]


def entry(name: str, time: float, repetition: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "repetition_index": repetition,
        "real_time": time,
        "time_unit": "ns",
        **more,
    }


def test_times_are_compared_peer_over_ours(script: Script) -> None:
    bench = script("run_bench")
    entries = [entry("alloc/ours/16", t, i) for i, t in enumerate([10.0, 30.0, 20.0])]
    entries.append(entry("alloc/peer:std/16", 60.0))
    (row,) = bench.rows_from(bench.measured_from({"benchmarks": entries}))
    assert (row.name, row.ours, row.peer, row.unit, row.ratio) == ("alloc/16", 20.0, 60.0, "ns", 3.0)
    assert row.peer_name == "std"


def test_items_are_compared_ours_over_peer_and_a_label_is_the_unit(script: Script) -> None:
    bench = script("run_bench")
    entries = [
        entry("points/ours/real_time", 1.0, items_per_second=6e6, label="points/s", points_per_delete=120.0),
        entry("points/peer:other/real_time", 1.0, items_per_second=2e6, label="points/s"),
    ]
    row, counter = bench.rows_from(bench.measured_from({"benchmarks": entries}))
    assert (row.name, row.unit, row.ratio) == ("points", "points/s", 3.0)
    assert (counter.name, counter.ours, counter.peer) == ("points: points_per_delete", 120.0, None)


def test_without_a_peer_there_is_no_ratio(script: Script) -> None:
    bench = script("run_bench")
    (row,) = bench.rows_from(bench.measured_from({"benchmarks": [entry("delete_4000/ours", 5.0)]}))
    assert (row.peer, row.ratio) == (None, None)


def test_a_failed_benchmark_is_no_figure(script: Script) -> None:
    bench = script("run_bench")
    failed = entry("alloc/ours", 0.0, error_occurred=True, error_message="no memory")
    with pytest.raises(SystemExit, match="alloc/ours failed: no memory"):
        bench.measured_from({"benchmarks": [failed]})


def test_a_peer_in_another_unit_is_refused(script: Script) -> None:
    bench = script("run_bench")
    entries = [entry("alloc/ours", 1.0), entry("alloc/peer:x", 1.0, label="cycles")]
    with pytest.raises(SystemExit, match="ours is in ns"):
        bench.rows_from(bench.measured_from({"benchmarks": entries}))
