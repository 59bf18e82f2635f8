"""Exact counts: blocks folded into functions, and where the functions' names come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.errors import InternalError
from mqlab.vm.counts import Counts, FunctionCount, parse_counts
from mqlab.vm.modules import Module
from mqlab.vm.symbols import known_symbols, parse_told, remember_symbols

SYMBOLS = parse_told("1000 first 10 second 0 alias f0 of_module")
TEXT = "\n".join(
    [
        "mqlab.counts/1",
        "boot 1000 500",
        "job 2 30",
        "1000 4 3",  # first, from its begin
        "1008 2 5",  # inside of it
        "1010 7 1",  # second
        "f00 1 1",  # below all
        "job 0 0",
        "job 1 0",
        "1100 1 2",
    ]
)


def test_blocks_are_folded_into_functions_and_a_begin_is_a_call() -> None:
    counts = parse_counts(TEXT, SYMBOLS)
    assert counts.total_instructions == 1500
    first, none, module = counts.jobs
    assert first.functions == {
        "first": FunctionCount(3, 22),
        "second": FunctionCount(1, 7),
        "(unknown)": FunctionCount(0, 1),
    }
    assert (first.windows, first.user_instructions, first.total_instructions) == (2, 30, 60)
    assert first.kernel_instructions == 30
    assert none == Counts(0, 0, 0, {})
    assert module.calls("of_module") == 2


def test_metrics_are_of_one_operation_and_a_function_never_called_is_zero() -> None:
    job = parse_counts(TEXT, SYMBOLS).jobs[0]
    assert job.metrics(2, ["first", "absent"]) == {
        "instructions_per_op": 30.0,
        "calls_per_op:first": 1.5,
        "calls_per_op:absent": 0.0,
    }
    assert [name for name, _ in job.top(2)] == ["first", "second"]


def test_without_symbols_the_sums_are_the_same() -> None:
    job = parse_counts(TEXT, parse_told("")).jobs[0]
    assert job.total_instructions == 60
    assert set(job.functions) == {"(unknown)"}


@pytest.mark.parametrize("text", ["", "mqlab.counts/2\nboot 0 0", "mqlab.counts/1"])
def test_another_document_is_refused(text: str) -> None:
    with pytest.raises(InternalError):
        parse_counts(text, SYMBOLS)


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "bzImage"
    path.write_bytes(b"kernel")
    return path


def test_what_a_guest_told_is_kept_for_this_image_and_these_modules(image: Path) -> None:
    modules = [Module("ublk_drv", b"code")]
    assert known_symbols(image, modules) is None
    remember_symbols(image, modules, "1000 first 10 second")
    known = known_symbols(image, modules)
    assert known is not None
    assert known.at(0x100F) == ("first", 0x1000)
    assert known_symbols(image, [Module("ublk_drv", b"other")]) is None
    assert known_symbols(image, []) is None


def test_a_system_map_beside_an_image_is_enough_where_there_are_no_modules(image: Path) -> None:
    lines = (
        "ffffffff81000000 T first\nffffffff81000010 d data\nffffffff81000020 t second\n                 U x\n"
    )
    (image.parent / "System.map").write_text(lines)
    known = known_symbols(image, [])
    assert known is not None
    assert known.names == ("first", "second")
    assert known_symbols(image, [Module("a", b"")]) is None


def test_a_damaged_file_in_the_cache_is_told_anew(image: Path) -> None:
    remember_symbols(image, [], "1000 first 10")
    assert known_symbols(image, []) is None
