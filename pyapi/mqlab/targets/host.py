"""This machine, as far as it decides whether two measurements may be compared."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from mqlab.parameters import Scalar

__all__ = ["host_fingerprint"]

_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def host_fingerprint() -> dict[str, Scalar]:
    """Kernel, CPU model and count, and clock source. No clock rates: they differ from boot to boot."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "clock_source": _read(_CLOCK_SOURCE),
    }


@cache
def _cpu_model() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return "unknown"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "unknown"
