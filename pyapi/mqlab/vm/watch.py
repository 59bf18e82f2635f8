"""Watches over a running emulator, so that a guest that hangs is ended and one that is only slow is not.

How long a guest takes depends on how busy this machine is, so what is limited is the emulator's CPU time. A
guest that waits for ever uses none or hardly any: one whose emulator does nothing at all for long is ended
earlier, and the agent in it has a limit of its own in the guest's time, which tells who was blocked where.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mqlab.vm.frames import Console, parse_console

__all__ = ["Limits", "Watch", "stage_of"]

_POLL_S = 0.05
_PARSE_EVERY_S = 0.4
# Less than this in one look is nothing: an emulator's own timers.
_IDLE_SHARE = 0.002
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Limits:
    """In seconds: of CPU time (a host CPU each) until the agent starts and for all, and without any work."""

    work_s: float = 600.0
    # A stock kernel with 16 CPUs needs a minute to its init, one with KASAN several.
    init_s: float = 420.0
    stalled_s: float = 120.0


def stage_of(console: Console) -> str:
    """What the guest was at last."""
    last = console.last("stage")
    return str(last["stage"]) if last else "the kernel's own start"


def _cpu_s(pid: int) -> float:
    """CPU time of a process, 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@dataclass
class Watch:
    """One emulator under watch. `host_cpus` is how many of this machine's CPUs it may keep busy at once."""

    console: Path
    limits: Limits
    host_cpus: int
    on_stage: Callable[[str], None] | None = None
    _stage: str = ""
    _agent_started: bool = False
    _parsed_at_s: float = field(default=0.0)
    _parsed_bytes: int = -1

    def wait(self, process: subprocess.Popen[bytes], is_cancelled: Callable[[], bool]) -> str | None:
        """None when the guest ended by itself, else why it was ended. The process is gone in any case."""
        begin_s = worked_at_s = time.monotonic()
        used_s = 0.0
        try:
            while process.poll() is None:
                if is_cancelled():
                    raise KeyboardInterrupt
                now_s = time.monotonic()
                self._look(now_s)
                now_used_s = _cpu_s(process.pid)
                if now_used_s - used_s > _IDLE_SHARE * (now_s - worked_at_s):
                    used_s, worked_at_s = now_used_s, now_s
                if (reason := self._passed(now_s - begin_s, now_used_s, now_s - worked_at_s)) is not None:
                    return reason
                time.sleep(_POLL_S)
            return None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _passed(self, wall_s: float, used_s: float, stalled_s: float) -> str | None:
        limits = self.limits
        work_s = limits.work_s if self._agent_started else min(limits.init_s, limits.work_s)
        if used_s >= work_s * self.host_cpus:
            return f"within {work_s:.0f} s of CPU time ({wall_s:.0f} s by the clock)"
        idle_limit_s = min(limits.stalled_s, limits.work_s)
        if stalled_s >= idle_limit_s:
            return f"and did nothing for {idle_limit_s:.0f} s"
        return None

    def _look(self, now_s: float) -> None:
        if now_s - self._parsed_at_s < _PARSE_EVERY_S:
            return
        self._parsed_at_s = now_s
        raw = self.console.read_bytes()
        if len(raw) == self._parsed_bytes:
            return
        self._parsed_bytes = len(raw)
        console = parse_console(raw)
        self._agent_started = bool(console.messages)
        stage = stage_of(console)
        if self.on_stage is not None and stage != self._stage:
            self.on_stage(stage)
        self._stage = stage
