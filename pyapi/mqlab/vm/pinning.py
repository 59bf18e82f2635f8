"""Starts an emulator on one CPU of this machine.

QEMU counts a guest's instructions in one thread and skips idle time in another (its main loop). After each
skip the main loop looks once more whether all of the guest's CPUs are idle. When it does so while the first
thread has just halted the last CPU and has not booked its instructions yet, it skips too far, and two boots
differ. On two CPUs of a busy machine that was seen in one boot of a few; on one CPU, without preemption at a
wake-up (SCHED_BATCH), the main loop is asleep again before the guest goes on. It costs nothing, since only
one of the two has work at a time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["on_one_cpu"]

# Emulators that run side by side get different CPUs; processes start at different ones.
_turn = itertools.count(os.getpid())


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """What this thread starts meanwhile stays on one CPU; the thread itself is afterwards as it was."""
    allowed = sorted(os.sched_getaffinity(0))
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setaffinity(0, {allowed[next(_turn) % len(allowed)]})
    try:
        if policy == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        yield
    finally:
        os.sched_setscheduler(0, policy, param)
        os.sched_setaffinity(0, allowed)
