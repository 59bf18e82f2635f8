"""Store: writes results as they come in, and reads them back equal."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from mqlab.errors import UsageError
from mqlab.model import Experiment
from mqlab.records import ResultRecord, RunRecord, Skip, fingerprint_id
from mqlab.store import schema as t
from mqlab.store.database import StoreError, default_location, open_engine, schema_of, store_errors

__all__ = ["Store", "StoreInfo", "StoredResult", "open_store_at"]

_DOUBLES: Final = np.dtype("<f8")


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What `mqlab store info` prints; `runs` and `samples` are counts."""

    url: str
    schema: str
    runs: int
    samples: int


@dataclass(frozen=True, slots=True)
class StoredResult:
    """One result in the list of a store."""

    id: int
    created: datetime
    experiment: str
    target: str
    label: str
    runs: int
    partial: bool


def open_store_at(location: str | None = None) -> Store:
    """Opens the store at a path or URL, by default the user's own; it is made if it is not there."""
    return Store(open_engine(location or default_location()))


class Store:
    """An open store. Each call is one transaction; not to be shared between threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    @property
    def url(self) -> str:
        return self._engine.url.render_as_string(hide_password=True)

    def info(self) -> StoreInfo:
        """Where the store is, its schema, and how much it holds."""
        with self._transaction("read") as connection:
            runs = connection.execute(sa.select(sa.func.count()).select_from(t.runs)).scalar_one()
            samples = connection.execute(
                sa.select(sa.func.coalesce(sa.func.sum(t.series.c.count), 0))
            ).scalar_one()
        return StoreInfo(self.url, schema_of(self._engine), int(runs), int(samples))

    def results(self, experiment: str | None = None) -> tuple[StoredResult, ...]:
        """What the store holds, oldest first."""
        count = sa.select(sa.func.count()).where(t.runs.c.result_id == t.results.c.id).scalar_subquery()
        c = t.results.c
        query = sa.select(c.id, c.created, c.experiment, c.target, c.label, count, c.partial).order_by(c.id)
        if experiment is not None:
            query = query.where(c.experiment == experiment)
        with self._transaction("read") as connection:
            rows = connection.execute(query).all()
        return tuple(_listed(tuple(row), self.url) for row in rows)

    def save(self, record: ResultRecord) -> int:
        """Writes a whole result at once and returns its id."""
        with self._transaction("write", write=True) as connection:
            id_ = _insert_result(connection, record)
            for run in record.runs:
                _insert_run(connection, id_, record.definition, run)
            _insert_skips(connection, id_, record.skips)
        return id_

    def begin(self, record: ResultRecord) -> int:
        """Writes a result without runs, marked partial until `finish`: what is measured outlives a crash."""
        return self.save(replace(record, runs=(), skips=(), partial=True))

    def add_run(self, id_: int, definition: Experiment, run: RunRecord) -> None:
        """Adds a run to a result that was begun."""
        with self._transaction("write", write=True) as connection:
            _insert_run(connection, id_, definition, run)

    def finish(self, id_: int, skips: Sequence[Skip], partial: bool) -> None:
        """Ends a result that was begun."""
        with self._transaction("write", write=True) as connection:
            _insert_skips(connection, id_, skips)
            connection.execute(sa.update(t.results).where(t.results.c.id == id_).values(partial=partial))

    def load(self, id_: int) -> ResultRecord:
        """The result with that id, equal to what was written; a damaged run is an error that names it."""
        with self._transaction("read") as connection:
            found = connection.execute(sa.select(t.results).where(t.results.c.id == id_)).mappings().first()
            if found is None:
                raise StoreError(f"the store {self.url} has no result {id_}", "see `mqlab store list`")
            runs = _load_runs(connection, id_, self.url)
            skips = connection.execute(
                sa.select(t.skips).where(t.skips.c.result_id == id_).order_by(t.skips.c.id)
            ).mappings()
            with _readable(f"result {id_}: its description", self.url):
                return ResultRecord(
                    Experiment.from_dict(json.loads(found["definition"])),
                    found["target"],
                    found["seed"],
                    datetime.fromisoformat(found["created"]),
                    found["tool_version"],
                    found["clock"],
                    runs,
                    tuple(Skip(s["variant"], s["case_id"], s["reason"], s["remedy"]) for s in skips),
                    found["label"],
                    found["profile"],
                    found["partial"],
                )

    def damaged(self) -> tuple[str, ...]:
        """The results and runs that cannot be read, in words; all others can."""
        broken: list[str] = []
        with self._transaction("read") as connection:
            ids = list(connection.execute(sa.select(t.results.c.id).order_by(t.results.c.id)).scalars())
        for id_ in ids:
            try:
                self.load(id_)
            except StoreError as error:
                broken.append(error.message)
        return tuple(broken)

    def save_reproduction(
        self, created: datetime, version: str, rows: Sequence[Mapping[str, Any]], remarks: Sequence[str],
        result_ids: Sequence[int],
    ) -> int:  # fmt: skip
        """Writes the rows of a reproduction and which stored results they were taken from."""
        with self._transaction("write", write=True) as connection:
            values = {
                "created": created.isoformat(), "tool_version": version,
                "rows": _to_json(list(rows)), "remarks": _to_json(list(remarks)),
            }  # fmt: skip
            id_ = _insert(connection, t.reproductions, values)
            for position, result_id in enumerate(result_ids):
                link = {"reproduction_id": id_, "position": position, "result_id": result_id}
                connection.execute(sa.insert(t.reproduction_results).values(link))
        return id_

    def load_reproduction(self, id_: int) -> tuple[list[dict[str, Any]], list[str], list[int]]:
        """The rows, remarks and result ids of a stored reproduction."""
        with self._transaction("read") as connection:
            found = (
                connection.execute(sa.select(t.reproductions).where(t.reproductions.c.id == id_))
                .mappings()
                .first()
            )
            if found is None:
                raise StoreError(f"the store {self.url} has no reproduction {id_}", "see `mqlab store info`")
            links = t.reproduction_results.c
            ids = connection.execute(
                sa.select(links.result_id).where(links.reproduction_id == id_).order_by(links.position)
            ).scalars()
            return json.loads(found["rows"]), json.loads(found["remarks"]), list(ids)

    def _transaction(self, doing: str, write: bool = False) -> _Transaction:
        return _Transaction(self._engine, doing, write)


class _Transaction:
    """One transaction whose errors name the store."""

    def __init__(self, engine: sa.Engine, doing: str, write: bool) -> None:
        self._errors = store_errors(engine.url, doing)
        self._engine = engine
        self._write = write
        self._connection: sa.Connection | None = None

    def __enter__(self) -> sa.Connection:
        with store_errors(self._engine.url, "open"):
            self._connection = self._engine.connect().execution_options(mqlab_write=self._write)
            self._connection.begin()
        self._errors.__enter__()
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._connection is not None
        try:
            if kind is None:
                with store_errors(self._engine.url, "write"):
                    self._connection.commit()
            else:
                self._connection.rollback()
        finally:
            self._connection.close()
            self._errors.__exit__(kind, error, trace)


def _insert(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> int:
    return int(connection.execute(sa.insert(table).values(values).returning(table.c.id)).scalar_one())


def _insert_result(connection: sa.Connection, record: ResultRecord) -> int:
    values = {
        "created": record.created.isoformat(),
        "experiment": record.definition.id,
        "target": record.target,
        "label": record.label,
        "profile": record.profile,
        "seed": record.seed,
        "clock": record.clock,
        "partial": record.partial,
        "tool_version": record.tool_version,
        "definition": _to_json(record.definition.to_dict()),
    }
    return _insert(connection, t.results, values)


def _insert_run(connection: sa.Connection, result_id: int, definition: Experiment, run: RunRecord) -> None:
    values = {
        "result_id": result_id,
        "variant": run.variant,
        "case_id": run.case,
        "run": run.run,
        "position": run.order,
        "seed": run.seed,
        "started": run.started.isoformat(),
        "fingerprint_id": _fingerprint(connection, run),
        "counters": _to_json(dict(run.counters)),
        "notes": _to_json(list(run.notes)),
        "conditions": _to_json(dict(run.conditions)),
        "dmesg": run.dmesg,
    }
    run_id = _insert(connection, t.runs, values)
    metrics = {m.name: m for m in definition.metrics}
    rows = [_series_values(run_id, name, samples, metrics) for name, samples in run.samples.items()]
    if rows:
        connection.execute(sa.insert(t.series), rows)


def _series_values(
    run_id: int, name: str, samples: NDArray[np.float64], metrics: Mapping[str, Any]
) -> dict[str, Any]:
    if not np.isfinite(samples).all():
        raise StoreError(
            f"{name} holds a value that is not finite", "nothing is written as NaN: mend the workload"
        )
    data = samples.astype(_DOUBLES).tobytes()
    known = metrics.get(name)
    return {
        "run_id": run_id,
        "metric": name,
        "unit": known.unit if known else "",
        "direction": known.direction if known else "",
        "count": len(samples),
        "crc": zlib.crc32(data),
        "samples": data,
    }


def _fingerprint(connection: sa.Connection, run: RunRecord) -> str:
    id_ = fingerprint_id(run.fingerprint)
    known = connection.execute(sa.select(t.fingerprints.c.id).where(t.fingerprints.c.id == id_)).first()
    if known is None:
        body = _to_json(dict(run.fingerprint))
        connection.execute(sa.insert(t.fingerprints).values(id=id_, body=body))
    return id_


def _insert_skips(connection: sa.Connection, result_id: int, skips: Sequence[Skip]) -> None:
    rows = [
        {
            "result_id": result_id,
            "variant": s.variant,
            "case_id": s.case,
            "reason": s.reason,
            "remedy": s.remedy,
        }
        for s in skips
    ]
    if rows:
        connection.execute(sa.insert(t.skips), rows)


def _load_runs(connection: sa.Connection, result_id: int, url: str) -> tuple[RunRecord, ...]:
    query = (
        sa.select(t.runs, t.fingerprints.c.body)
        .join(t.fingerprints, t.fingerprints.c.id == t.runs.c.fingerprint_id)
        .where(t.runs.c.result_id == result_id)
        .order_by(t.runs.c.position)
    )
    runs = connection.execute(query).mappings().all()
    wanted = sa.select(t.runs.c.id).where(t.runs.c.result_id == result_id)
    rows = connection.execute(
        sa.select(t.series).where(t.series.c.run_id.in_(wanted)).order_by(t.series.c.id)
    )
    samples: dict[int, dict[str, NDArray[np.float64]]] = {run["id"]: {} for run in runs}
    for row in rows.mappings():
        samples[row["run_id"]][row["metric"]] = _samples(row, result_id, url)
    return tuple(_run(run, samples[run["id"]], result_id, url) for run in runs)


def _run(
    run: sa.RowMapping, samples: Mapping[str, NDArray[np.float64]], result_id: int, url: str
) -> RunRecord:
    with _readable(f"result {result_id}, run {run['id']}: its description", url):
        return RunRecord(
            run["variant"],
            run["case_id"],
            run["run"],
            run["position"],
            run["seed"],
            datetime.fromisoformat(run["started"]),
            samples,
            json.loads(run["counters"]),
            tuple(json.loads(run["notes"])),
            json.loads(run["conditions"]),
            json.loads(run["body"]),
            run["dmesg"],
        )


def _listed(row: tuple[Any, ...], url: str) -> StoredResult:
    with _readable(f"result {row[0]}: its description", url):
        return StoredResult(row[0], datetime.fromisoformat(row[1]), *row[2:])


@contextmanager
def _readable(what: str, url: str) -> Iterator[None]:
    """Names what cannot be read: text columns have no checksum, so damage shows when they are parsed."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"{what} is damaged in {url}: {error}", "the other results can be read; see `mqlab store check`"
        ) from None


def _samples(row: sa.RowMapping, result_id: int, url: str) -> NDArray[np.float64]:
    data: bytes = row["samples"]
    if len(data) != row["count"] * _DOUBLES.itemsize or zlib.crc32(data) != row["crc"]:
        raise StoreError(
            f"result {result_id}, run {row['run_id']}: the samples of {row['metric']} are damaged in {url}",
            "the other results can be read; see `mqlab store check`",
        )
    values = np.frombuffer(data, dtype=_DOUBLES).astype(np.float64, copy=False)
    values.setflags(write=False)
    return values


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise StoreError("a value is not finite", "nothing is written as NaN") from None
