from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mqlab
from mqlab.model import Experiment
from mqlab.records import ResultRecord, RunRecord, Skip
from mqlab.result import Result
from mqlab.store import Store, StoreError, open_store_at
from mqlab.store.schema import KNOWN_SCHEMAS, SCHEMA, metadata


def run(order: int = 0, samples: list[float] | None = None, **changes: object) -> RunRecord:
    values = np.array([1.5, 2.5] if samples is None else samples)
    values.setflags(write=False)
    fields: dict[str, object] = {
        "variant": "before" if order % 2 == 0 else "after",
        "case": "short",
        "run": order // 2,
        "order": order,
        "seed": 7,
        "started": datetime.now(UTC),
        "samples": {"wait_ms": values},
        "counters": {"points": 12},
        "notes": ("quiet",),
        "conditions": {"hz": 250},
        "fingerprint": {"target": "sim", "kernel": "model"},
        "dmesg": "[    0.000000] Linux\n",
    }
    return RunRecord(**{**fields, **changes})  # type: ignore[arg-type]


def record(waits: Experiment, runs: tuple[RunRecord, ...], **changes: object) -> ResultRecord:
    made = ResultRecord(
        waits,
        "sim",
        7,
        datetime.now(UTC),
        "0.1.0",
        "virtual time",
        runs,
        (Skip("after", "long", "why", "do"),),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_result_reads_back_equal(waits: Experiment) -> None:
    written = record(waits, (run(0), run(1), run(2)), label="nightly", profile="published")
    with open_store_at() as store:
        id_ = store.save(written)
        assert store.load(id_) == written
        assert Result(store.load(id_)) == Result(written)
        info = store.info()
        assert (info.schema, info.runs, info.samples) == (SCHEMA, 3, 6)
    with open_store_at() as again:
        assert again.load(id_) == written


def test_equality_sees_every_part_of_a_run() -> None:
    one = run(started=datetime(2026, 1, 1, tzinfo=UTC))
    assert one == replace(one)
    for change in (
        {"samples": {"wait_ms": np.array([1.5, 2.6])}},
        {"counters": {"points": 13}},
        {"notes": ()},
        {"conditions": {"hz": 1000}},
        {"fingerprint": {"target": "vm"}},
        {"dmesg": ""},
        {"seed": 8},
    ):
        assert one != replace(one, **change)  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20),
    st.text(max_size=20),
    st.dictionaries(st.text(min_size=1, max_size=8), st.integers(-(2**62), 2**62), max_size=3),
)
def test_any_samples_text_and_counters_read_back_equal(
    tmp_path: Path, waits: Experiment, samples: list[float], text: str, counters: dict[str, int]
) -> None:
    text = text.replace("\x00", "").encode("utf-8", "ignore").decode()
    written = record(waits, (run(0, samples, dmesg=text, counters=counters),))
    with open_store_at(str(tmp_path / "any.sqlite")) as store:
        assert store.load(store.save(written)) == written


def test_runs_that_were_added_outlive_a_crash_and_are_marked_partial(waits: Experiment) -> None:
    whole = record(waits, (run(0), run(1)))
    with open_store_at() as store:
        id_ = store.begin(whole)
        store.add_run(id_, waits, whole.runs[0])
    with open_store_at() as store:
        assert store.load(id_) == replace(whole, runs=whole.runs[:1], skips=(), partial=True)
        store.add_run(id_, waits, whole.runs[1])
        store.finish(id_, whole.skips, partial=False)
        assert store.load(id_) == whole


def test_a_killed_writer_loses_only_what_it_had_not_written(own_store: Path) -> None:
    program = """
import os, signal, mqlab
from mqlab.model import *
from mqlab.records import *
from datetime import datetime, UTC
import numpy as np
e = Experiment("e", "t", (Variant("a", "a", {}),), (Case("c", "w", {}),), (Metric("m_ms", "ms", "lower"),))
store = mqlab.open_store()
id_ = store.begin(ResultRecord(e, "sim", 1, datetime.now(UTC), "0", "virtual time"))
for i in range(1000):
    store.add_run(id_, e, RunRecord("a", "c", i, i, 1, datetime.now(UTC), {"m_ms": np.arange(1000.0)}))
    if i == 20:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with open_store_at() as store:
        (listed,) = store.results()
        assert (listed.runs, listed.partial) == (21, True)
        assert len(store.load(listed.id).runs) == 21
        assert store.damaged() == ()


def test_nothing_is_written_as_nan(waits: Experiment) -> None:
    with open_store_at() as store:
        for bad in (float("nan"), float("inf")):
            with pytest.raises(StoreError, match="not finite"):
                store.save(record(waits, (run(0), run(1, [1.0, bad]))))
        with pytest.raises(StoreError, match="not finite"):
            store.save(record(waits, (run(0, conditions={"hz": float("nan")}),)))
        assert store.info().runs == 0


def test_a_store_of_a_newer_mqlab_is_refused_and_left_alone(own_store: Path) -> None:
    open_store_at().close()
    with sqlite3.connect(own_store) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="schema 9999, this mqlab knows up to") as caught:
        open_store_at()
    assert "update" in caught.value.remedy
    with sqlite3.connect(own_store) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)


@pytest.mark.parametrize(
    "content", [b"x", b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_corrupt_file_gives_one_clear_message(own_store: Path, content: bytes) -> None:
    own_store.parent.mkdir()
    own_store.write_bytes(content)
    with pytest.raises(StoreError, match="damaged") as caught:
        open_store_at()
    assert str(own_store) in caught.value.message
    assert "--store" in caught.value.remedy
    assert own_store.read_bytes() == content


@pytest.mark.parametrize("keep", [1, 100, 0.5, -1])
def test_a_store_cut_short_never_gives_wrong_figures(own_store: Path, waits: Experiment, keep: float) -> None:
    written = [record(waits, (run(0, [float(i)] * 2000), run(1))) for i in range(4)]
    with open_store_at() as store:
        ids = [store.save(r) for r in written]
    with sqlite3.connect(own_store) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    content = own_store.read_bytes()
    cut = int(len(content) * keep) if isinstance(keep, float) else keep
    own_store.write_bytes(content[:cut])
    try:
        with open_store_at() as store:
            for id_, expected in zip(ids, written, strict=True):
                try:
                    assert store.load(id_) == expected
                except StoreError as error:
                    assert error.message  # noqa: PT017
    except StoreError as error:
        assert str(own_store) in error.message  # noqa: PT017


def test_a_damaged_run_is_named_and_the_others_load(own_store: Path, waits: Experiment) -> None:
    written = [record(waits, (run(0), run(1))) for _ in range(2)]
    with open_store_at() as store:
        ids = [store.save(r) for r in written]
    with sqlite3.connect(own_store) as raw:
        raw.execute("UPDATE series SET samples = zeroblob(16) WHERE run_id = 1")
    with open_store_at() as store:
        with pytest.raises(StoreError, match=f"result {ids[0]}, run 1: the samples of wait_ms are damaged"):
            store.load(ids[0])
        assert store.load(ids[1]) == written[1]
        assert len(store.damaged()) == 1


def test_the_database_of_another_program_is_left_alone(own_store: Path) -> None:
    own_store.parent.mkdir()
    with sqlite3.connect(own_store) as raw:
        raw.execute("CREATE TABLE bookmarks(address TEXT)")
    with pytest.raises(StoreError, match="the database of something else"):
        open_store_at()
    with sqlite3.connect(own_store) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE results SET definition = '{' WHERE id = 1", "result 1: its description"),
        ("UPDATE results SET definition = '{}' WHERE id = 1", "result 1: its description"),
        ("UPDATE results SET created = 'never' WHERE id = 1", "result 1: its description"),
        ("UPDATE runs SET counters = 'x' WHERE id = 1", "result 1, run 1: its description"),
        ("UPDATE runs SET notes = '3' WHERE id = 1", "result 1, run 1: its description"),
    ],
)
def test_damaged_text_is_named_and_the_others_load(
    own_store: Path, waits: Experiment, damage: str, named: str
) -> None:
    written = [record(waits, (run(0), run(1))) for _ in range(2)]
    with open_store_at() as store:
        ids = [store.save(r) for r in written]
    with sqlite3.connect(own_store) as raw:
        raw.execute(damage)
    with open_store_at() as store:
        with pytest.raises(StoreError, match=f"{named} is damaged"):
            store.load(ids[0])
        assert store.load(ids[1]) == written[1]
        (told,) = store.damaged()
        assert named in told


def test_a_folder_that_cannot_be_written_gives_one_clear_message(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    for part in [*folder.parents][:3]:
        part.chmod(part.stat().st_mode | 0o055)
    program = f"""
import os
if os.getuid() == 0:
    os.setuid(65534)
import mqlab
try:
    mqlab.open_store({str(folder / "s.sqlite")!r})
except mqlab.MqlabError as error:
    print(error.kind, error.message, "|", error.remedy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("store cannot open the store")
    assert "--store" in done.stdout


def test_a_path_below_a_file_and_an_unknown_database_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for bad in (str(tmp_path / "file" / "s.sqlite"), "nosuchdb://host/name", "://"):
        with pytest.raises(StoreError):
            open_store_at(bad)


def test_the_migrations_make_exactly_the_tables_of_the_schema(own_store: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(mqlab.store.__file__).parent / "migrations"))
    script = ScriptDirectory.from_config(config)
    assert script.get_current_head() == SCHEMA
    assert {r.revision for r in script.walk_revisions()} == KNOWN_SCHEMAS
    open_store_at().close()
    engine = sa.create_engine(f"sqlite:///{own_store}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_two_processes_may_open_a_new_store_at_once(own_store: Path) -> None:
    program = "import mqlab; s = mqlab.open_store(); print(s.info().schema)"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [p.communicate(timeout=60)[0].strip() for p in started] == [SCHEMA] * 4


def test_a_million_samples_become_a_frame_in_under_a_second(waits: Experiment) -> None:
    runs = tuple(run(i, list(np.arange(50_000.0) + i)) for i in range(20))
    with open_store_at() as store:
        id_ = store.save(record(waits, runs))
        taken = []
        for _ in range(3):  # the first one imports pandas
            start = time.perf_counter()
            frame = Result(store.load(id_)).frame()
            taken.append(time.perf_counter() - start)
    assert len(frame) == 1_000_000
    assert min(taken) < 1, taken


def test_the_store_of_a_reproduction_reads_back(waits: Experiment) -> None:
    with open_store_at() as store:
        ids = [store.save(record(waits, (run(0),))) for _ in range(2)]
        rows = [{"row": "a", "published_before": {"low": 6, "high": 8}, "measured_before": None}]
        id_ = store.save_reproduction(datetime.now(UTC), "0.1.0", rows, ["remark"], ids[::-1])
        assert store.load_reproduction(id_) == (rows, ["remark"], ids[::-1])
        for missing in (store.load, store.load_reproduction):
            with pytest.raises(StoreError, match="has no"):
                missing(99)


def test_sqlite_runs_in_wal_mode_and_stays_one_file(own_store: Path) -> None:
    with open_store_at() as store:
        assert isinstance(store, Store)
        assert json.dumps(store.info().url)
    with sqlite3.connect(own_store) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()
    assert os.listdir(own_store.parent) == [own_store.name]
