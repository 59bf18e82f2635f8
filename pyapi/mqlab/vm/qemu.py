"""QEMU: which one there is, and the command line of a guest."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mqlab.errors import UnsupportedError

__all__ = ["Machine", "Qemu", "find_qemu"]

_PROGRAM = "qemu-system-x86_64"
_INSTALL_QEMU = "install QEMU for x86 (on Debian and Ubuntu: apt-get install qemu-system-x86)"

# One instruction is one nanosecond of the guest's clock, which starts at a fixed date; nothing of the host's
# time or randomness comes in.
_DETERMINISTIC = (
    *("-accel", "tcg"),
    *("-icount", "shift=0,sleep=off"),
    *("-rtc", "base=2026-01-01,clock=vm"),
    *("-cpu", "max,-rdrand,-rdseed"),
)
_DETERMINISTIC_ARGS = ("nokaslr", "norandmaps", "random.trust_cpu=off")
_REAL_TIME = ("-accel", "tcg,thread=multi", "-cpu", "max")


@dataclass(frozen=True)
class Machine:
    """A guest. It has no emulated device but the serial line: those run in the host's time."""

    cpus: int = 2
    memory_mib: int = 1024
    clock: Literal["deterministic", "real"] = "deterministic"
    seed: int = 1
    kernel_args: tuple[str, ...] = ()

    def command_line(self) -> str:
        """Of the guest's kernel."""
        fixed = ("console=ttyS0", "quiet", "panic=-1", "oops=panic", "mqlab.init=1")
        deterministic = _DETERMINISTIC_ARGS if self.clock == "deterministic" else ()
        return " ".join((*fixed, *deterministic, *self.kernel_args))

    def facts(self) -> dict[str, Any]:
        """What must agree for two boots to be comparable."""
        return {
            "accel": "tcg",
            "clock": self.clock,
            "cpus": self.cpus,
            "memory_mib": self.memory_mib,
            "qemu_flags": " ".join(self._clock_options()),
            "kernel_args": self.command_line(),
        }

    def _clock_options(self) -> tuple[str, ...]:
        return _DETERMINISTIC if self.clock == "deterministic" else _REAL_TIME

    def options(self, image: Path, initramfs: Path, console: Path) -> list[str]:
        """Of QEMU. The console is a file: a pipe that fills up would be waited for in the host's time."""
        return [
            *("-machine", "pc", "-nodefaults", "-no-user-config", "-no-reboot"),
            *("-display", "none", "-monitor", "none"),
            *self._clock_options(),
            *("-seed", str(self.seed)),
            *("-smp", str(self.cpus), "-m", f"{self.memory_mib}M"),
            *("-kernel", str(image), "-initrd", str(initramfs)),
            *("-append", self.command_line()),
            *("-serial", f"file:{console}"),
        ]


@dataclass(frozen=True)
class Qemu:
    """An emulator that was found."""

    program: Path
    version: str


@cache
def find_qemu() -> Qemu:
    """The machine's QEMU, or UnsupportedError with how to get one."""
    program = shutil.which(_PROGRAM)
    if program is None:
        raise UnsupportedError(f"{_PROGRAM} is not installed", _INSTALL_QEMU)
    try:
        answer = subprocess.run(
            [program, "--version"], check=True, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnsupportedError(f"{program} --version was answered with: {error}", _INSTALL_QEMU) from error
    found = re.search(r"version (\S+)(?: \((.+?)\))?", answer.stdout)
    if found is None:
        raise UnsupportedError(f"{program} does not say its version: {answer.stdout.strip()}", _INSTALL_QEMU)
    return Qemu(Path(program), found[2] or found[1])
