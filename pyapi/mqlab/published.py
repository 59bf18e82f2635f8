"""The figures of the patch threads, read from results/published: one file a thread, checked as it is read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, cast

from mqlab.errors import UsageError
from mqlab.model import Direction
from mqlab.parameters import Scalar, did_you_mean

__all__ = [
    "Bounds",
    "Range",
    "Row",
    "Side",
    "Thread",
    "load_thread",
    "missing_figures",
    "thread_ids",
    "threads",
]


@dataclass(frozen=True, slots=True)
class Range:
    """A figure printed as a range, such as 6-8."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


Side = float | Range | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a claim in words says of a number. A limit that is None does not bind."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def hold(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}"
        words = (
            ("at least", self.at_least),
            ("at most", self.at_most),
            ("above", self.above),
            ("below", self.below),
        )
        return " and ".join(f"{word} {limit:g}" for word, limit in words if limit is not None)


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure or claim.

    `before` and `after` are what the thread prints. A claim in words has `expect` instead (bounds of
    before, after or ratio) and `measured_by`, which says what decides it. `remarks` tell where the thread
    is silent or odd.
    """

    thread: str
    id: str
    condition: str
    metric: str
    unit: str
    direction: Direction
    where: str
    kind: Literal["figure", "claim"] = "figure"
    before: Side = None
    after: Side = None
    approximate: bool = False
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    measured_by: str = ""
    expect: Mapping[str, Bounds] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The row's name among those of all threads."""
        return f"{self.thread}/{self.id}"


@dataclass(frozen=True, slots=True)
class Thread:
    """A patch thread: where and when it was published, on what it was measured, and its rows."""

    id: str
    title: str
    subject: str
    date: date
    kernel: str
    machine: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]

    def row(self, id_: str) -> Row:
        for row in self.rows:
            if row.id == id_:
                return row
        raise UsageError(f"thread {self.id} has no row {id_!r}", did_you_mean(id_, [r.id for r in self.rows]))


def _folder() -> Traversable:
    return files("mqlab") / "_published"


@cache
def thread_ids() -> tuple[str, ...]:
    """The ids of all threads, sorted."""
    names = [entry.name for entry in _folder().iterdir()]
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def threads() -> tuple[Thread, ...]:
    """All threads with their rows."""
    return tuple(load_thread(id_) for id_ in thread_ids())


@cache
def load_thread(id_: str) -> Thread:
    """The thread with that id, read and checked."""
    if id_ not in thread_ids():
        raise UsageError(f"no figures are published under {id_!r}", did_you_mean(id_, list(thread_ids())))
    return parse_thread((_folder() / f"{id_}.toml").read_text(encoding="utf-8"), f"{id_}.toml")


def parse_thread(text: str, source: str) -> Thread:
    """Reads the text of a file of results/published; a UsageError names the file and the row."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is no TOML: {error}", "mend the file") from None
    head = _table(data, "thread", source)
    thread = {key: _text(head, key, source) for key in ("id", "title", "subject", "kernel", "machine")}
    if not isinstance(head.get("date"), date):
        raise UsageError(f"{source}: [thread] has no date", "write date = YYYY-MM-DD")
    notes = _texts(head, "notes", source)
    _refuse_unknown(head, {*thread, "date", "notes"}, source)
    rows = tuple(_row(entry, thread["id"], source) for entry in data.get("row", []))
    ids = [row.id for row in rows]
    for twice in (id_ for id_ in ids if ids.count(id_) > 1):
        raise UsageError(f"{source}: two rows are called {twice!r}", "give each its own id")
    return Thread(**thread, date=head["date"], notes=notes, rows=rows)


def missing_figures(thread: Thread, folder: Path) -> list[str]:
    """The rows whose figures, as printed, do not stand in the thread's file in `folder`."""
    path = folder / f"{thread.id}.txt"
    try:
        text = " ".join(path.read_text(encoding="utf-8", errors="replace").split())
    except OSError as error:
        raise UsageError(
            f"cannot read the thread file {path}: {error.strerror}", "see --thread-files"
        ) from None
    return [row.id for row in thread.rows if any(piece not in text for piece in row.printed)]


def _row(data: Mapping[str, Any], thread: str, source: str) -> Row:
    where = f"{source}: row {data.get('id', '?')!r}"
    words = {
        key: _text(data, key, where) for key in ("id", "condition", "metric", "unit", "direction", "where")
    }
    if words["direction"] not in ("lower", "higher"):
        raise UsageError(f"{where}: direction is {words['direction']!r}", "write lower or higher")
    kind = data.get("kind", "figure")
    if kind not in ("figure", "claim"):
        raise UsageError(f"{where}: kind is {kind!r}", "write figure or claim")
    before, after = _side(data, "before", where), _side(data, "after", where)
    expect = {key: _bounds(value, f"{where}: expect.{key}") for key, value in data.get("expect", {}).items()}
    _refuse_unknown(expect, {"before", "after", "ratio"}, f"{where}: expect")
    if before is None and after is None and not expect:
        raise UsageError(f"{where} has neither figures nor an expectation", "give before, after or expect")
    if kind == "claim" and not data.get("measured_by"):
        raise UsageError(f"{where} does not say what measures the claim", "add measured_by")
    lists = {key: _texts(data, key, where) for key in ("also", "printed", "remarks")}
    known = {*words, *lists, "kind", "before", "after", "approximate", "conditions", "measured_by", "expect"}
    _refuse_unknown(data, known, where)
    return Row(
        thread=thread,
        id=words["id"],
        condition=words["condition"],
        metric=words["metric"],
        unit=words["unit"],
        where=words["where"],
        also=lists["also"],
        printed=lists["printed"],
        remarks=lists["remarks"],
        direction=cast(Direction, words["direction"]),
        kind=kind,
        before=before,
        after=after,
        approximate=bool(data.get("approximate", False)),
        conditions=dict(data.get("conditions", {})),
        measured_by=data.get("measured_by", ""),
        expect=expect,
    )


def _side(data: Mapping[str, Any], key: str, where: str) -> Side:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, dict):
        if set(value) != {"low", "high"} or not value["low"] <= value["high"]:
            raise UsageError(f"{where}: {key} is no range", "write { low = 6, high = 8 }")
        return Range(_number(value["low"], key, where), _number(value["high"], key, where))
    return _number(value, key, where)


def _number(value: object, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise UsageError(f"{where}: {key} is {value!r}", "write a number that is not negative")
    return float(value)


def _bounds(value: object, where: str) -> Bounds:
    if not isinstance(value, dict) or not value:
        raise UsageError(f"{where} is no set of bounds", "write { at_least = 1 }")
    _refuse_unknown(value, {"at_least", "at_most", "above", "below"}, where)
    return Bounds(**{key: _number(limit, key, where) for key, limit in value.items()})


def _table(data: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise UsageError(f"{where} has no [{key}]", "add it")
    return value


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where} has no {key}", "add it as a text")
    return value


def _texts(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{where}: {key} is no list of texts", "write a list")
    return tuple(value)


def _refuse_unknown(data: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in data:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}", did_you_mean(key, sorted(known)))
