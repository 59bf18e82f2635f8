"""Boots a guest, waits for its end, and reads what it said."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mqlab.errors import MqlabError, SystemCallError, TimeoutError_
from mqlab.leash import on_leash
from mqlab.vm.counter import Counter
from mqlab.vm.failed import keep_log
from mqlab.vm.frames import Console, parse_console
from mqlab.vm.qemu import Machine, Qemu
from mqlab.vm.steady import on_one_cpu, steady_environment
from mqlab.vm.trouble import Trouble, find_troubles
from mqlab.vm.watch import Limits, Watch, stage_of

__all__ = ["GuestError", "GuestReport", "GuestTimeoutError", "boot_guest"]

_TAIL_LINES = 25


class _EvidencedError(MqlabError):
    """`evidence` is what the guest said about it, `log` all that came over its console and its kernel log."""

    def __init__(self, message: str, remedy: str, evidence: str, log: str = "") -> None:
        kept = keep_log(log) if log.strip() else None
        where = f"; all that it said is in {kept}" if kept else ""
        super().__init__(f"{message}{where}\n{evidence}", remedy)
        self.evidence = evidence
        self.log = log


class GuestError(_EvidencedError, SystemCallError):
    """A guest that panicked, oopsed or ended without a result."""


class GuestTimeoutError(_EvidencedError, TimeoutError_):
    """A guest that did not end in time."""


@dataclass(frozen=True)
class GuestReport:
    """A boot that came to its end.

    `notes` are what a reader of its figures should know. `counted` is what the plugin wrote, and
    `symbols_told` what the agent told of the kernel's functions, both as text (see counts.py and symbols.py).
    """

    result: dict[str, Any]
    dmesg: str
    console: str
    wall_s: float
    notes: tuple[str, ...] = ()
    counted: str | None = None
    symbols_told: str | None = None


@dataclass(frozen=True)
class _End:
    """How a boot ended: what was said, by the guest and by QEMU."""

    machine: Machine
    console: Console
    said_by_qemu: str
    counted: str | None

    @property
    def dmesg(self) -> str:
        return str((self.console.last("dmesg") or {}).get("text", ""))

    @property
    def log(self) -> str:
        return "\n".join(part for part in (self.console.text.strip(), self.dmesg) if part)

    @property
    def stage(self) -> str:
        return stage_of(self.console)

    def tail(self) -> str:
        lines = self.console.text.rstrip().splitlines()[-_TAIL_LINES:]
        return "\n".join([*lines, *self.said_by_qemu.strip().splitlines()])

    def troubles(self) -> list[Trouble]:
        return find_troubles(self.console.text) or find_troubles(self.dmesg)


def _never() -> bool:
    return False


def _overloaded(machine: Machine) -> str:
    """Why a stall in this guest may be this machine's: empty where its time is not this machine's."""
    if machine.clock == "deterministic":
        return ""
    return (
        f"in real time a CPU of the guest that this machine does not run looks stuck to the guest's kernel "
        f"({machine.cpus} CPUs of the guest on {os.cpu_count()}, load {os.getloadavg()[0]:.1f})"
    )


def _raise_timeout(end: _End, reason: str) -> None:
    troubles = end.troubles()
    evidence = troubles[0].text if troubles else end.tail()
    raise GuestTimeoutError(
        f"the guest did not end {reason}; it was in: {end.stage}",
        _overloaded(end.machine) or "give it more time, fewer devices or fewer CPUs",
        evidence,
        end.log,
    )


def _raise_trouble(end: _End, trouble: Trouble) -> None:
    remedy = "the kernel's report says where"
    if trouble.kind == "stall" and (excuse := _overloaded(end.machine)):
        remedy = f"{excuse}; a broken kernel stalls on an idle machine and with a deterministic clock too"
    raise GuestError(
        f"the guest's kernel broke ({trouble.kind}) in: {end.stage}", remedy, trouble.text, end.log
    )


def _check_troubles(end: _End) -> tuple[str, ...]:
    """Raises for a broken kernel; a stall that a busy machine explains, and that passed, is a note."""
    troubles = end.troubles()
    excuse = _overloaded(end.machine) if end.console.last("result") is not None else ""
    excused = [t for t in troubles if excuse and t.kind == "stall"]
    for trouble in troubles:
        if trouble not in excused:
            _raise_trouble(end, trouble)
    if not excused:
        return ()
    first = excused[0].text.splitlines()[0]
    return (f"the guest's kernel reported {len(excused)} stalls that passed ({first}): {excuse}",)


def _raise_agent_error(end: _End, error: dict[str, Any]) -> None:
    message, remedy = f"the agent failed: {error['message']}", str(error["remedy"])
    kind = GuestTimeoutError if error.get("kind") == "timeout" else GuestError
    raise kind(message, remedy, end.tail(), end.log)


def _report(end: _End, wall_s: float) -> GuestReport:
    notes = _check_troubles(end)
    result = end.console.last("result")
    if result is None:
        raise GuestError(
            f"the guest ended without a result in: {end.stage}",
            "see the end of its console and what QEMU said",
            end.tail(),
            end.log,
        )
    if "error" in result:
        _raise_agent_error(end, result["error"])
    told = (end.console.last("symbols") or {}).get("text")
    return GuestReport(result, end.dmesg, end.console.text, wall_s, notes, end.counted, told)


def _start(command: list[str], machine: Machine, log: Path) -> subprocess.Popen[bytes]:
    """Only a deterministic guest is steadied; in real time its CPUs run side by side."""
    exact = machine.clock == "deterministic"
    environment = steady_environment() if exact else None
    with log.open("wb") as out, on_one_cpu() if exact else nullcontext():
        try:
            # A process group of its own: Ctrl-C is for mqlab, which then ends the guest itself.
            return subprocess.Popen(
                on_leash(command, "KILL"),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,
                env=environment,
            )
        except OSError as error:
            raise MqlabError(f"starting {command[0]} was answered with: {error}") from error


def boot_guest(
    qemu: Qemu,
    machine: Machine,
    image: Path,
    initramfs: bytes,
    *,
    limit_s: float = 600.0,
    counter: Counter | None = None,
    on_stage: Callable[[str], None] | None = None,
    is_cancelled: Callable[[], bool] = _never,
) -> GuestReport:
    """One boot from start to power-off. Raises GuestError or GuestTimeoutError with the evidence.

    `limit_s` is of CPU time, so that a busy machine ends no healthy guest. `on_stage` is told what the guest
    is at; `is_cancelled` ends it by KeyboardInterrupt.
    """
    host_cpus = 1 if machine.clock == "deterministic" else min(machine.cpus, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="mqlab-vm-") as folder:
        initramfs_path, console, log, counted = (
            Path(folder) / name for name in ("initramfs", "console", "log", "counted")
        )
        initramfs_path.write_bytes(initramfs)
        console.touch()
        begin_s = time.monotonic()
        options = machine.options(image, initramfs_path, console)
        if counter is not None:
            options += counter.options(counted)
        process = _start([str(qemu.program), *options], machine, log)
        watch = Watch(console, replace(Limits(), work_s=limit_s), host_cpus, on_stage)
        reason = watch.wait(process, is_cancelled)
        wall_s = time.monotonic() - begin_s
        end = _End(
            machine,
            parse_console(console.read_bytes()),
            log.read_text(errors="replace"),
            counted.read_text() if counted.is_file() else None,
        )
        if reason is not None:
            _raise_timeout(end, reason)
        return _report(end, wall_s)
