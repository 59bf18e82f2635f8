#!/usr/bin/env python3
"""Runs the benchmarks and writes build/bench.json: a list of {name, ours, peer, unit, ratio}.

A benchmark is named SUBJECT/ours, and the same work done by something else SUBJECT/peer:WHAT. Its value is
the items a second where it sets them (more is better), otherwise the time of one iteration (less is
better); a label, set with SetLabel, replaces the unit. Each further counter becomes a row of its own,
without a peer. ratio is ours / peer for items a second and peer / ours for times: above 1, ours is the
faster one. The median of the repetitions counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OWN_KEYS = {
    *(
        "name",
        "family_index",
        "per_family_instance_index",
        "run_name",
        "run_type",
        "repetitions",
        "label",
        "threads",
    ),
    *(
        "repetition_index",
        "iterations",
        "real_time",
        "cpu_time",
        "time_unit",
        "items_per_second",
        "bytes_per_second",
    ),
    *("aggregate_name", "aggregate_unit", "error_occurred", "error_message", "skipped", "skip_message"),
}


@dataclass(frozen=True)
class Measured:
    """One benchmark's median."""

    subject: str
    who: str
    value: float
    unit: str
    more_is_better: bool
    counters: dict[str, float]


@dataclass(frozen=True)
class BenchRow:
    """One line of bench.json."""

    name: str
    ours: float
    peer: float | None
    unit: str
    ratio: float | None
    peer_name: str | None = None


def measured_from(document: dict[str, Any]) -> list[Measured]:
    """The medians of one executable's output; a benchmark that failed ends the program."""
    repetitions: dict[str, list[dict[str, Any]]] = {}
    for entry in document["benchmarks"]:
        if entry.get("error_occurred"):
            raise SystemExit(f"benchmark {entry['name']} failed: {entry.get('error_message', 'no message')}")
        if entry.get("run_type") == "iteration":
            repetitions.setdefault(entry["run_name"], []).append(entry)
    return [median_of(name, entries) for name, entries in repetitions.items()]


def median_of(name: str, entries: list[dict[str, Any]]) -> Measured:
    first = entries[0]
    by_items = "items_per_second" in first
    value = statistics.median(entry["items_per_second" if by_items else "real_time"] for entry in entries)
    counters = [key for key in first if key not in OWN_KEYS and isinstance(first[key], int | float)]
    parts = name.split("/")
    role = next((i for i, part in enumerate(parts) if part == "ours" or part.startswith("peer")), None)
    # Arguments are part of the subject, what Google Benchmark says about its clock is not.
    options = {"real_time", "process_time", "manual_time"}
    subject = "/".join(part for i, part in enumerate(parts) if i != role and part not in options)
    return Measured(
        subject=subject,
        who="ours" if role is None else parts[role],
        value=value,
        unit=first.get("label") or ("items/s" if by_items else first["time_unit"]),
        more_is_better=by_items,
        counters={key: statistics.median(entry[key] for entry in entries) for key in counters},
    )


def rows_from(all_measured: list[Measured]) -> list[BenchRow]:
    """Ours beside each peer, and one row a counter of ours."""
    rows: list[BenchRow] = []
    for ours in (m for m in all_measured if m.who == "ours"):
        peers = [m for m in all_measured if m.subject == ours.subject and m.who != "ours"]
        for peer in peers:
            if peer.unit != ours.unit:
                raise SystemExit(f"{ours.subject}: ours is in {ours.unit}, {peer.who} in {peer.unit}")
            ratio = ours.value / peer.value if ours.more_is_better else peer.value / ours.value
            what = peer.who.partition(":")[2] or None
            rows.append(BenchRow(ours.subject, ours.value, peer.value, ours.unit, ratio, what))
        if not peers:
            rows.append(BenchRow(ours.subject, ours.value, None, ours.unit, None))
        rows += [
            BenchRow(f"{ours.subject}: {key}", value, None, key, None) for key, value in ours.counters.items()
        ]
    return rows


def run_executable(path: Path, only: str, repetitions: int) -> list[Measured]:
    command = [str(path), "--benchmark_format=json", f"--benchmark_filter={only}"]
    command += [f"--benchmark_repetitions={repetitions}", "--benchmark_report_aggregates_only=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{path.name} ended with {done.returncode}: {done.stderr.strip()}")
    if not done.stdout.strip():  # nothing in it matches the filter
        return []
    return measured_from(json.loads(done.stdout))


def start_time(name: str, command: list[str], repetitions: int) -> BenchRow:
    """The wall time of a whole process, the first run not counted since it reads from the disk."""
    times = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return BenchRow(name, statistics.median(times[1:]), None, "s", None)


def start_times(repetitions: int) -> list[BenchRow]:
    python = sys.executable
    script = Path(python).with_name("mqlab")
    return [
        start_time("start/python", [python, "-c", ""], repetitions),
        start_time("start/import mqlab", [python, "-c", "import mqlab"], repetitions),
        start_time("start/mqlab list", [str(script), "list"], repetitions),
    ]


def table_of(rows: list[BenchRow]) -> str:
    lines = [f"{'benchmark':<58} {'ours':>12} {'peer':>12} {'unit':<10} {'ratio':>7}"]
    for row in rows:
        peer = "-" if row.peer is None else f"{row.peer:.4g}"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        name = row.name if row.peer_name is None else f"{row.name} (peer: {row.peer_name})"
        lines.append(f"{name:<58} {row.ours:>12.4g} {peer:>12} {row.unit:<10} {ratio:>7}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, required=True, help="build tree with the benchmark executables")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=".", help="a regular expression: run only what matches")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()

    found: list[Measured] = []
    for path in sorted((options.build / "bench").glob("bench_*")):
        if path.is_file() and os.access(path, os.X_OK):
            print(f"bench: {path.name}", file=sys.stderr)
            found += run_executable(path, options.only, options.repetitions)
    rows = rows_from(found)
    if options.only == ".":
        rows += start_times(options.repetitions)
    if not rows:
        raise SystemExit(f"no benchmark matches {options.only}")
    options.out.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    print(table_of(rows))
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
