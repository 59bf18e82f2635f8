"""Published rows on kernels that are built without and with a thread's patches, at sizes of seconds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mqlab
from mqlab.errors import UnsupportedError
from mqlab.kernels.tools import require_tools
from mqlab.reproduction import Reproduction

pytestmark = [pytest.mark.kernels, pytest.mark.slow, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def threads() -> Path:
    """The folder with the thread files, where kernels can be built; else a skip with the reason."""
    folder = os.environ.get("MQLAB_THREAD_FILES")
    if not folder:
        pytest.skip("MQLAB_THREAD_FILES does not name the folder with the thread files")
    try:
        require_tools()
    except UnsupportedError as error:
        pytest.skip(str(error))
    return Path(folder)


@pytest.fixture(scope="module")
def tags(threads: Path) -> Reproduction:
    sizes = {"devices": 8, "cpus": 2, "threads": 2}
    return mqlab.reproduce(
        "tags-srcu", target="vm", thread_files=threads, params=sizes, store=False, progress=False
    )


def test_the_wait_for_a_grace_period_is_gone_after_the_series(tags: Reproduction) -> None:
    rows = {row.row: row for row in tags.rows}
    row = rows["del-dev-p50-serial"]
    assert row.measured_before is not None
    assert row.measured_after is not None
    assert (
        3.0 <= row.measured_before <= 5.0
    )  # four jiffies of a millisecond, more or less a start inside of one
    assert row.measured_after < 0.5
    assert row.sim_before == pytest.approx(row.measured_before, rel=0.3)


def test_the_barrier_was_called_once_a_device_and_is_called_no_more(tags: Reproduction) -> None:
    (row,) = (row for row in tags.rows if row.row == "del-dev-p50-serial")
    calls = {pair.metric: (pair.before, pair.after) for pair in row.counts}
    if not calls:
        pytest.skip(f"instructions were not counted: {[run.notes for run in tags.results[0].runs][:1]}")
    assert calls["calls_per_op:srcu_barrier"] == (1.0, 0.0)


def test_kernels_tell_what_they_were_built_from(tags: Reproduction) -> None:
    runs = {run.variant: run.fingerprint for run in tags.results[0].runs}
    assert runs["before"]["patches"] == ""
    assert len(str(runs["series"]["patches"]).split()) == 2
    assert runs["before"]["hz"] == 1000
    assert "gcc" in str(runs["before"]["kernel_compiler"]).lower()


def test_the_rows_that_no_kernel_holds_say_why(tags: Reproduction) -> None:
    for row in tags.rows:
        assert row.measured or (row.status == "skipped" and row.reason)
