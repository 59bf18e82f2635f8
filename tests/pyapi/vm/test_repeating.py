"""Boots compared with each other: to the last nanosecond, or by how far they spread when varied."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mqlab import repeating
from mqlab.cli import main
from mqlab.errors import UnsupportedError, UsageError
from mqlab.repeating import BootSample, Repetition, repeat

BOOT = BootSample(1, 0, {"del_dev_ns": (10, 20, 30), "total_ns": (60,)}, 5000, 700, "ffffffff81000000")


def repetition(*boots: BootSample, varied: tuple[str, ...] = ()) -> Repetition:
    machine = {"cpus": 2, "clock": "deterministic"}
    return Repetition("tags-srcu", "case", "before", "7.3.4", machine, varied, boots)


def test_equal_boots_are_identical() -> None:
    same = repetition(BOOT, BOOT, BOOT)
    assert same.identical
    assert (same.samples, same.differing) == (4, 0)


def test_one_nanosecond_in_one_boot_is_seen() -> None:
    other = replace(BOOT, samples={**BOOT.samples, "del_dev_ns": (10, 21, 30)})
    found = repetition(BOOT, BOOT, other)
    assert not found.identical
    assert found.differing == 1


def test_a_sample_that_is_missing_differs() -> None:
    found = repetition(BOOT, replace(BOOT, samples={"del_dev_ns": (10, 20)}))
    assert found.differing == 2
    assert not found.identical


def test_one_instruction_makes_boots_differ_though_no_sample_does() -> None:
    found = repetition(BOOT, replace(BOOT, instructions=5001))
    assert found.differing == 0
    assert not found.identical
    assert repetition(replace(BOOT, instructions=None), replace(BOOT, instructions=None)).identical


def test_the_spread_is_of_medians_over_boots() -> None:
    other = replace(
        BOOT, samples={"del_dev_ns": (40, 50, 60), "total_ns": (60,)}, text_address="ffffffff92000000"
    )
    found = repetition(BOOT, other, varied=("seed", "address"))
    spreads = {spread.metric: spread for spread in found.spreads()}
    assert (spreads["del_dev_ns"].low, spreads["del_dev_ns"].high) == (20, 50)
    assert spreads["del_dev_ns"].relative == 1.5
    assert spreads["total_ns"].relative == 0
    assert len(found.text_addresses()) == 2


def test_the_document_has_the_promised_keys() -> None:
    document = json.loads(json.dumps(repetition(BOOT, BOOT).to_dict(), allow_nan=False))
    assert {k: document[k] for k in ("boots", "samples", "differing", "identical")} == {
        "boots": 2,
        "samples": 4,
        "differing": 0,
        "identical": True,
    }


@pytest.mark.parametrize("same", [True, False])
def test_the_command_prints_and_its_status_says_whether_boots_differ(
    same: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = repetition(BOOT, BOOT if same else replace(BOOT, instructions=1))
    monkeypatch.setattr(repeating, "repeat", lambda *_args, **_options: found)
    for words in (["--json"], []):
        with pytest.raises(SystemExit) as ended:
            main(["vm", "repeat", "tags-srcu", "--boots", "2", *words])
        assert ended.value.code == (0 if same else 1)
    printed = capsys.readouterr().out
    document, text = printed.split("\n}\n", 1)
    assert json.loads(document + "\n}")["identical"] is same
    assert "5000, the same in all" in text if same else "NOT identical" in text


def test_the_spread_is_printed_with_where_the_code_lay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = repetition(BOOT, replace(BOOT, text_address="ffffffff92000000"), varied=("address",))
    monkeypatch.setattr(repeating, "repeat", lambda *_args, **_options: found)
    with pytest.raises(SystemExit) as ended:
        main(["vm", "repeat", "tags-srcu", "--vary", "address"])
    assert ended.value.code == 0
    assert "began at ffffffff81000000, ffffffff92000000" in capsys.readouterr().out


def test_what_cannot_be_repeated_is_refused() -> None:
    with pytest.raises(UsageError, match="'sed' cannot be varied; did you mean seed"):
        repeat("tags-srcu", vary=["sed"])
    with pytest.raises(UsageError, match="boots=1"):
        repeat("tags-srcu", boots=1)
    with pytest.raises(UnsupportedError, match="no guest does a case"):
        repeat("tags-srcu", case="iterator-none")
