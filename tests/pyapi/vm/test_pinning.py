"""An emulator runs on one CPU, for the determinism of its guest; its starter does not."""

from __future__ import annotations

import os
import subprocess
import sys

from mqlab.vm.pinning import on_one_cpu

TELL = "import os; print(len(os.sched_getaffinity(0)), os.sched_getscheduler(0) == os.SCHED_BATCH)"


def test_what_is_started_stays_on_one_cpu_and_the_starter_is_as_before() -> None:
    before = (os.sched_getaffinity(0), os.sched_getscheduler(0))
    with on_one_cpu():
        done = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True"]
    assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before


def test_emulators_side_by_side_take_turns_over_the_cpus() -> None:
    chosen = set()
    for _ in range(len(os.sched_getaffinity(0))):
        with on_one_cpu():
            chosen |= os.sched_getaffinity(0)
    assert chosen == os.sched_getaffinity(0)
