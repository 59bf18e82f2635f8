"""Boots a guest, waits for its end, and reads what it said."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlab.errors import MqlabError, SystemCallError, TimeoutError_
from mqlab.vm.frames import Console, parse_console
from mqlab.vm.pinning import on_one_cpu
from mqlab.vm.qemu import Machine, Qemu

__all__ = ["GuestError", "GuestReport", "boot_guest", "find_trouble"]

_POLL_S = 0.2
# A stock kernel with 16 CPUs needs a minute to its init, and several on a busy host.
_INIT_LIMIT_S = 420.0

# What a kernel says when it is broken; the rest of the report follows the line.
_TROUBLE = re.compile(
    r"Kernel panic - not syncing|\bOops: |\bBUG: |general protection fault|KASAN: "
    r"|WARNING: possible (?:circular|recursive|irq lock inversion)|WARNING: inconsistent lock state"
    r"|suspicious RCU usage|INFO: task .* blocked for more than|rcu: INFO: .* detected stalls"
    r"|unable to handle (?:kernel|page)"
)
_TROUBLE_LINES = 60
_TAIL_LINES = 25


class GuestError(SystemCallError):
    """A guest that panicked, oopsed or ended without a result. `evidence` is what its kernel said."""

    def __init__(self, message: str, remedy: str, evidence: str) -> None:
        super().__init__(message, remedy)
        self.evidence = evidence

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.evidence}"


@dataclass(frozen=True)
class GuestReport:
    """A boot that came to its end."""

    result: dict[str, Any]
    dmesg: str
    console: str
    wall_s: float


def find_trouble(text: str) -> str | None:
    """The first report of a broken kernel in a log, as its lines."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _TROUBLE.search(line):
            return "\n".join(lines[number : number + _TROUBLE_LINES])
    return None


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:])


def _never() -> bool:
    return False


class _Watch:
    """Looks at a guest's console while it runs: what the guest is at, and how long it may take by now."""

    def __init__(self, console: Path, limit_s: float, on_stage: Callable[[str], None] | None) -> None:
        self._console = console
        self._limit_s = limit_s
        self._on_stage = on_stage
        self._stage = ""

    def allowed_s(self) -> float:
        """A guest whose agent never starts is ended earlier than one that works."""
        console = parse_console(self._console.read_bytes())
        stage = _stage(console)
        if self._on_stage is not None and stage != self._stage:
            self._on_stage(stage)
        self._stage = stage
        return self._limit_s if console.messages else min(_INIT_LIMIT_S, self._limit_s)


def _wait(process: subprocess.Popen[bytes], watch: _Watch, is_cancelled: Callable[[], bool]) -> float | None:
    """None when the guest ended by itself, else the limit that it passed. The process is gone in any case."""
    begin_s = time.monotonic()
    try:
        while process.poll() is None:
            if is_cancelled():
                raise KeyboardInterrupt
            if time.monotonic() - begin_s >= (allowed_s := watch.allowed_s()):
                return allowed_s
            time.sleep(_POLL_S)
        return None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _stage(console: Console) -> str:
    last = console.last("stage")
    return str(last["stage"]) if last else "the kernel's own start"


def _raise_timeout(console: Console, limit_s: float) -> None:
    raise TimeoutError_(
        f"the guest did not end within {limit_s:.0f} s; it was in: {_stage(console)}; its console ends:\n"
        f"{_tail(console.text)}",
        "give it more time, fewer devices or fewer CPUs; a slow or busy host needs more",
    )


def _report(console: Console, wall_s: float, said_by_qemu: str) -> GuestReport:
    dmesg = str((console.last("dmesg") or {}).get("text", ""))
    trouble = find_trouble(console.text) or find_trouble(dmesg)
    if trouble is not None:
        raise GuestError(
            f"the guest's kernel broke in: {_stage(console)}", "the kernel's report says where", trouble
        )
    result = console.last("result")
    if result is None:
        raise GuestError(
            f"the guest ended without a result in: {_stage(console)}",
            "see the end of its console and what QEMU said",
            "\n".join(part for part in (_tail(console.text), said_by_qemu.strip()) if part),
        )
    if "error" in result:
        error = result["error"]
        raise GuestError(f"the agent failed: {error['message']}", str(error["remedy"]), _tail(console.text))
    return GuestReport(result=result, dmesg=dmesg, console=console.text, wall_s=wall_s)


def boot_guest(
    qemu: Qemu,
    machine: Machine,
    image: Path,
    initramfs: bytes,
    *,
    limit_s: float = 600.0,
    on_stage: Callable[[str], None] | None = None,
    is_cancelled: Callable[[], bool] = _never,
) -> GuestReport:
    """One boot from start to power-off. Raises GuestError or TimeoutError_ with the evidence.

    `on_stage` is told what the guest is at; `is_cancelled` ends it by KeyboardInterrupt.
    """
    with tempfile.TemporaryDirectory(prefix="mqlab-vm-") as folder:
        initramfs_path, console_path, log_path = (
            Path(folder) / name for name in ("initramfs", "console", "log")
        )
        initramfs_path.write_bytes(initramfs)
        console_path.touch()
        command = [str(qemu.program), *machine.options(image, initramfs_path, console_path)]
        begin_s = time.monotonic()
        with log_path.open("wb") as log:
            try:
                # A process group of its own: Ctrl-C is for mqlab, which then ends the guest itself.
                with on_one_cpu():
                    process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
                    )
            except OSError as error:
                raise MqlabError(f"starting {qemu.program} was answered with: {error}") from error
            passed_s = _wait(process, _Watch(console_path, limit_s, on_stage), is_cancelled)
        wall_s = time.monotonic() - begin_s
        console = parse_console(console_path.read_bytes())
        if passed_s is not None:
            _raise_timeout(console, passed_s)
        return _report(console, wall_s, log_path.read_text(errors="replace"))
