"""Starts an emulator with a deterministic clock so that two boots are the same however busy this machine is.

QEMU counts a guest's instructions in one thread and skips idle time in another (its main loop). The main loop
looks whether all of the guest's CPUs are idle at moments that the host's scheduler decides; when it does so
after the last one has halted and before the first thread has booked its instructions, it skips too far, and
two boots differ. On a busy machine that was seen in most boots. A small library that is loaded before QEMU
(core/plugin/steady) lets the main loop go on only while the other thread waits, which closes the gap.

The emulator is kept on one CPU besides, without preemption at a wake-up (SCHED_BATCH): only one of the two
threads has work at a time, and handing over on one CPU is faster; it also makes the gap small where the
library cannot be loaded.
"""

from __future__ import annotations

import importlib.resources
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["on_one_cpu", "steady_environment"]

# Emulators that run side by side get different CPUs; processes start at different ones.
_turn = itertools.count(os.getpid())


def steady_environment() -> dict[str, str]:
    """The environment of this process, with the library to be loaded first where it is installed."""
    library = Path(str(importlib.resources.files("mqlab") / "bin" / "mqlab-steady.so"))
    environment = dict(os.environ)
    if library.is_file() and not set(" :") & set(str(library)):  # these separate names there
        others = environment.get("LD_PRELOAD")
        environment["LD_PRELOAD"] = f"{library} {others}" if others else str(library)
    return environment


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
