"""The extension module: JSON in and out, errors as exceptions, Ctrl-C, and no lock held while it works."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import mqlab
from mqlab import _core, errors

ENDLESS = json.dumps({"params": {"draws": 10**15}})


def test_a_workload_runs_from_a_json_text() -> None:
    spec = json.dumps({"seed": 1, "params": {"draws": 100, "kept": 3}})
    result = json.loads(_core.run_workload("random_draws", spec))
    assert result["counters"]["draws"] == 100
    assert len(result["samples"]["draw_count"]) == 3
    assert result == json.loads(_core.run_workload("random_draws", spec))


def test_the_list_says_what_may_be_set() -> None:
    workloads = {w["name"]: w for w in json.loads(_core.list_workloads())}
    draws = next(p for p in workloads["random_draws"]["params"] if p["name"] == "draws")
    assert draws["default"] == 1000
    assert draws["min"] == 1


def test_the_versions_agree() -> None:
    assert mqlab.__version__ == _core.version()


@pytest.mark.parametrize(
    ("name", "spec", "message", "remedy"),
    [
        ("no_such", "{}", "unknown workload 'no_such'", "random_draws"),
        ("random_draws", "{", "the spec is no JSON", "give a JSON object"),
        ("random_draws", '{"seed": 1e999}', "the spec is no JSON", "give a JSON object"),
        ("random_draws", "[]", "spec of random_draws: [] is no object", "give keys and values"),
        ("random_draws", '{"params": {"draws": 0}}', "params.draws: 0", "from 1 to 1000000000000000"),
    ],
)
def test_a_bad_spec_is_a_usage_error(name: str, spec: str, message: str, remedy: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        _core.run_workload(name, spec)
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert caught.value.kind == "usage"


def test_ctrl_c_ends_a_long_workload_in_the_main_thread() -> None:
    program = f"""
import signal, sys, threading, time
from mqlab import _core
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
start = time.monotonic()
try:
    _core.run_workload("random_draws", {ENDLESS!r})
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 2)
print("later", len(_core.run_workload("random_draws", "{{}}")) > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["interrupted", "True", "later", "True"]


def test_cancelling_reaches_the_worker_threads() -> None:
    ended: list[str] = []

    def work() -> None:
        try:
            _core.run_workload("random_draws", ENDLESS)
        except KeyboardInterrupt:
            ended.append("interrupted")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while not _core.request_cancel() and time.monotonic() < deadline:
        time.sleep(0.01)
    while any(t.is_alive() for t in threads) and time.monotonic() < deadline:
        _core.request_cancel()
        time.sleep(0.01)
    for thread in threads:
        thread.join(timeout=10)
    assert ended == ["interrupted", "interrupted"]
    assert not _core.request_cancel()


def test_the_gil_is_free_while_a_workload_runs() -> None:
    done = threading.Event()

    def work() -> None:
        _core.run_workload("random_draws", json.dumps({"params": {"draws": 30_000_000}}))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
        time.sleep(0)
    thread.join()
    # Were the lock held, this loop could not turn until the workload was done.
    assert turns > 100


def test_an_error_reads_back_from_pickle() -> None:
    error = errors.UnsupportedError("no ublk", "load ublk_drv")
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.remedy, again.kind) == ("no ublk", "load ublk_drv", "unsupported")


def test_signal_handling_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    _core.run_workload("random_draws", "{}")
    assert signal.getsignal(signal.SIGINT) is before
