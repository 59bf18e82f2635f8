"""The command line: documents, exit statuses, messages."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mqlab.cli import main

SLOW = '''
import time
import mqlab


@mqlab.workload
def slow_down(spec):
    """Sleeps."""
    time.sleep(0.15)
    return {"slept_ms": [150.0, 151.0]}


@mqlab.experiment
def sleeping():
    """How long does it sleep?"""
    return mqlab.Experiment(
        id="sleeping",
        title="sleeping",
        variants=(mqlab.Variant("plain", "asleep", {}), mqlab.Variant("other", "asleep too", {})),
        cases=(mqlab.Case("only", "slow_down", {"n": 1}),),
        metrics=(mqlab.Metric("slept_ms", "ms", "lower"),),
        parameters=(mqlab.Parameter("n", "how many", "", 1, 100),),
    )
'''


@pytest.fixture
def slow(tmp_path: Path) -> str:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Called:
    """What a command printed and its exit status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def mqlab_(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Called:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        captured = capsys.readouterr()
        return Called(int(caught.value.code or 0), captured.out, captured.err)

    return call


def test_list_names_the_four_and_those_of_a_file(mqlab_: Any, slow: str) -> None:
    assert [line.split()[0] for line in mqlab_("list").out.splitlines()] == [
        "nvme-ns-remove", "plug-batch", "quiesce-rt", "tags-srcu",
    ]  # fmt: skip
    document = mqlab_("list", "--experiments", slow, "--json").document
    assert document["schema"] == "mqlab.list/1"
    assert "sleeping" in [e["id"] for e in document["experiments"]]
    assert all({"variants", "cases", "metrics"} <= set(e) for e in document["experiments"])


def test_show_tells_all_of_an_experiment(mqlab_: Any) -> None:
    text = mqlab_("show", "tags-srcu").out
    for part in (
        "Variants",
        "Cases",
        "Metrics",
        "Parameters",
        "3.45 -> 0.17 ms",
        "silent or odd",
        "from 100 to 1000 Hz",
    ):
        assert part in text
    document = mqlab_("show", "quiesce-rt", "--json").document
    rows = {r["id"]: r for r in document["published"]["rows"]}
    assert rows["irq-threads-in-d"]["before"] == {"low": 6, "high": 8}
    assert rows["atomic-depth"]["expect"] == {"ratio": "above 2"}


def test_run_prints_one_document_stores_and_writes_files(mqlab_: Any, slow: str, tmp_path: Path) -> None:
    called = mqlab_("run", slow, "--runs", "2", "--json", "--label", "night", "--out", "here")
    assert called.status == 0
    assert called.document["schema"] == "mqlab.run/1"
    assert called.document["results"][0]["runs"] == [[150.0, 151.0]] * 2
    names = [f"sleeping-run.{end}" for end in ("csv", "json", "png", "txt")]
    assert sorted(os.listdir(tmp_path / "here")) == names
    assert str(tmp_path / "here") in called.err
    assert json.loads((tmp_path / "here" / "sleeping-run.json").read_text()) == called.document
    assert (
        (tmp_path / "here" / "sleeping-run.csv")
        .read_text()
        .splitlines()[0]
        .startswith("experiment,variant,case")
    )
    info = mqlab_("store", "info", "--json").document
    assert {k: info[k] for k in ("runs", "samples")} == {"runs": 4, "samples": 8}
    assert set(info) == {"url", "schema", "runs", "samples"}
    (listed,) = mqlab_("store", "list", "--json").document["results"]
    assert (listed["label"], listed["experiment"], listed["partial"]) == ("night", "sleeping", False)
    assert mqlab_("store", "check").status == 0


def test_run_prints_a_table_and_nothing_but_the_place_of_files_on_stderr(mqlab_: Any, slow: str) -> None:
    called = mqlab_("run", slow, "--runs", "1", "--variant", "plain", "--set", "n=3")
    assert "slept_ms p50 [ms], lower is better" in called.out
    assert "n 3" in called.out
    assert called.err.startswith("wrote 4 files to ")
    assert mqlab_("run", slow, "--runs", "1", "--no-files").err == ""


@pytest.mark.parametrize(
    ("arguments", "status", "kind", "part"),
    [
        (["run", "tags-srcuu"], 2, "usage", "did you mean tags-srcu?"),
        (["run", "tags-srcu", "--set", "hz=5"], 2, "usage", "from 100 to 1000 Hz"),
        (["run", "tags-srcu", "--set", "hz"], 2, "usage", "PARAM=VALUE"),
        (["run", "tags-srcu", "--set", "devices=-1"], 2, "usage", "from 1 to 100000"),
        (["run", "tags-srcu", "--set", "devices=4000000000"], 2, "usage", "from 1 to 100000"),
        (["run", "tags-srcu", "--set", "hz=1ms"], 2, "usage", "no unit"),
        (["run", "tags-srcu", "--set", "wings=2"], 2, "usage", "unknown parameter"),
        (["run", "tags-srcu", "--runs", "0"], 2, "usage", "from 1 to 10000"),
        (["run", "tags-srcu", "--runs", "many"], 2, "usage", "from 1 to 10000"),
        (["run", "tags-srcu", "--seed", "-1"], 2, "usage", "whole number from 0"),
        (["run", "tags-srcu", "--target", "moon"], 2, "usage", "no target"),
        (["run", "tags-srcu", "--variant", "x"], 2, "usage", "no variant"),
        (["run", "tags-srcu", "--profile", "x"], 2, "usage", "profile"),
        (["run", "tags-srcu", "--store", "/dev/null/x"], 2, "store", "/dev/null/x"),
        (["run", "tags-srcu", "--out", "/dev/null/x"], 2, "usage", "--out"),
        (["run", "missing.py"], 2, "usage", "there is no file"),
        (["reproduce", "moon"], 2, "usage", "no thread"),
        (["reproduce", "--thread-files", "/no/such"], 2, "usage", "cannot read the thread file"),
        (["show", "moon"], 2, "usage", "known are"),
        (["walk"], 2, "usage", "No such command"),
        (["run"], 2, "usage", "Missing argument"),
        (["run", "tags-srcu", "--wings"], 2, "usage", "No such option"),
        (["store", "info", "--store", "nosuchdb://host/x"], 2, "store", "nosuchdb"),
    ],
)
def test_bad_input_gives_one_message_and_its_status(
    mqlab_: Any, arguments: list[str], status: int, kind: str, part: str
) -> None:
    told = mqlab_(*arguments)
    assert (told.status, told.out) == (status, "")
    assert told.err.startswith("mqlab: ")
    assert "Traceback" not in told.err
    assert part in told.err
    document = mqlab_(*arguments, "--json")
    assert document.status == status
    assert set(document.document["error"]) == {"kind", "message", "remedy"}
    assert document.document["error"]["kind"] == kind
    assert document.document["error"]["message"]
    assert document.err == ""


def test_a_corrupt_store_is_named_and_stays_as_it_was(mqlab_: Any, slow: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"garbage" * 1000)
    called = mqlab_("run", slow, "--store", str(path))
    assert (called.status, called.out) == (2, "")
    assert str(path) in called.err
    assert path.read_bytes() == b"garbage" * 1000


def test_a_file_that_cannot_be_written_gives_one_document_and_leaves_nothing_behind(
    mqlab_: Any, slow: str, tmp_path: Path
) -> None:
    (tmp_path / "out" / "sleeping-run.json").mkdir(parents=True)
    called = mqlab_("run", slow, "--runs", "1", "--json")
    assert called.status == 2
    assert "cannot write out/sleeping-run.json" in called.document["error"]["message"]
    assert not list((tmp_path / "out").glob(".*"))
    assert mqlab_("store", "info", "--json").document["runs"] == 2


def test_a_workload_that_fails_is_named_with_its_line(mqlab_: Any, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(SLOW.replace("time.sleep(0.15)", "1 / 0"))
    called = mqlab_("run", str(file), "--json")
    assert called.status == 2
    assert f"slow_down failed at {file}:9: ZeroDivisionError" in called.document["error"]["message"]


def test_an_unforeseen_error_is_3_and_not_the_status_of_a_regression(
    mqlab_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("mqlab.discovery.find_experiments", fail)
    called = mqlab_("list", "--json")
    assert called.status == 3
    assert called.document["error"]["kind"] == "internal"
    assert "Traceback" in called.err


@pytest.mark.parametrize("arguments", ["list", "list --json", "show moon --json"])
def test_a_full_disk_behind_stdout_is_told(arguments: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mqlab", *arguments.split()],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == (2 if "moon" in arguments else 4)
    assert done.stderr.startswith("mqlab: ")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_the_same_seed_gives_the_same_bytes(mqlab_: Any) -> None:
    wanted = ("run", "tags-srcu", "--case", "ublk-1000-serial", "--set", "devices=5", "--json", "--no-files")
    first, again, other = (mqlab_(*wanted, "--seed", seed).out for seed in ("7", "7", "8"))
    assert first == again
    assert first != other


def test_nothing_measured_is_3_and_nothing_possible_is_4(mqlab_: Any, tmp_path: Path, slow: str) -> None:
    empty = tmp_path / "empty.py"
    text = SLOW.replace("slow_down", "no_samples").replace('{"slept_ms": [150.0, 151.0]}', "{}")
    empty.write_text(text)
    assert mqlab_("run", str(empty), "--runs", "1").status == 3
    profile = tmp_path / "none.toml"
    profile.write_text("")
    called = mqlab_("run", slow, "--target", "sim", "--profile", str(profile), "--json")
    assert called.status == 4
    assert called.document["skipped"][0]["remedy"] == "it runs on native"


def test_completion_scripts_are_printed(mqlab_: Any) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_MQLAB_COMPLETE" in mqlab_("completion", shell).out


def test_completion_offers_experiments_and_targets() -> None:
    from mqlab.cli.options import _complete_experiment, _complete_target

    offered = _complete_experiment(None, None, "tags")  # type: ignore[arg-type]
    assert [item.value for item in offered] == ["tags-srcu"]
    assert "sim" in [item.value for item in _complete_target(None, None, "")]  # type: ignore[arg-type]


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mqlab", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def test_ctrl_c_ends_with_130_and_keeps_what_was_measured(slow: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mqlab", "run", slow, "--runs", "500", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    stored = 0
    while stored < 3 and time.monotonic() < deadline:
        time.sleep(0.3)
        stored = json.loads(run_process("store", "info", "--json").stdout).get("runs", 0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["partial"] is True
    kept = sum(len(r["runs"]) for r in document["results"])
    assert 3 <= kept < 500
    assert "interrupted" in err
    listed = json.loads(run_process("store", "list", "--json").stdout)["results"]
    assert [(r["partial"], r["runs"]) for r in listed] == [(True, kept)]


def test_a_ctrl_c_before_the_first_run_leaves_the_files_of_an_earlier_one(
    mqlab_: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mqlab.targets.engine.SimTarget.run", interrupt)
    earlier = tmp_path / "out" / "tags-srcu.txt"
    earlier.parent.mkdir()
    earlier.write_text("earlier")
    called = mqlab_("reproduce", "tags-srcu", "--json")
    assert called.status == 130
    assert called.document["partial"] is True
    assert earlier.read_text() == "earlier"


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m mqlab show tags-srcu | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("tags-srcu")
    assert "Traceback" not in done.stderr


def test_no_colour_and_no_bar_without_a_terminal(slow: str) -> None:
    done = run_process("run", slow, "--runs", "1", "--no-files")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(slow: str) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "mqlab", "run", slow, "--runs", "2", "--no-files"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # the terminal's end of file
        while piece := os.read(ours, 4096):
            seen += piece
    out, _ = done.communicate(timeout=60)
    os.close(ours)
    assert b"sleeping" in seen
    assert b"4/4" in seen
    assert seen.endswith(b"\r")
    assert "slept_ms" in out


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.UTF-8"])
def test_any_locale_gives_the_same_numbers(slow: str, locale: str) -> None:
    done = run_process("run", slow, "--runs", "1", "--no-files", env={**os.environ, "LC_ALL": locale})
    assert done.returncode == 0
    assert "150.5" in done.stdout


@pytest.mark.parametrize("option", ["--store", "--target", "--kernel", "--thread-files"])
def test_an_empty_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "tags-srcu", option, ""])
    assert ended.value.code == 2
    assert "it is empty" in capsys.readouterr().err


def test_show_keeps_to_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    with pytest.raises(SystemExit):
        main(["show", "tags-srcu"])
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if line.startswith("  ")) <= 64
