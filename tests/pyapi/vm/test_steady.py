"""What makes two deterministic boots the same: a library loaded first, and one CPU."""

from __future__ import annotations

import os
import subprocess
import sys

from mqlab.vm.steady import on_one_cpu, steady_environment

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


def test_the_library_is_loaded_first_and_leaves_other_programs_alone() -> None:
    environment = steady_environment()
    assert environment["LD_PRELOAD"].endswith("mqlab-steady.so")
    program = (
        "import select, threading; c = threading.Condition(); r = []\n"
        "def f():\n with c: c.wait(); r.append(1)\n"
        "t = threading.Thread(target=f); t.start()\n"
        "while t.is_alive():\n  with c: c.notify()\n  select.poll().poll(1)\n"
        "print(r)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[1]\n"
    assert done.stderr == ""
