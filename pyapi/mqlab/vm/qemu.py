"""QEMU: which one there is, and the command line of a guest.

Plain QEMU with an initramfs of our own rather than virtme-ng: it takes 7 s to a command's output without KVM
where virtme-ng, which brings up a whole user space, takes 67 s, and nothing in the guest runs beside the
workload.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mqlab.errors import UnsupportedError, UsageError
from mqlab.vm.devices import device_options

__all__ = ["Accelerator", "Machine", "Qemu", "find_qemu"]

Accelerator = Literal["tcg", "kvm"]

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
_FIXED_ADDRESSES = ("nokaslr", "norandmaps")
_REAL_TIME: Mapping[Accelerator, tuple[str, ...]] = {
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max"),
    "kvm": ("-accel", "kvm", "-cpu", "host"),
}
# A panic repeats the whole kernel log on the console (bit 5), which no agent can send any more.
_FIXED_ARGS = ("console=ttyS0", "quiet", "panic=-1", "oops=panic", "panic_print=0x20", "mqlab.init=1")


@dataclass(frozen=True)
class Machine:
    """A guest.

    `clock` is "deterministic" (the guest's time counts instructions, one a nanosecond; contention is
    under-represented, since one CPU runs at a time) or "real". `devices` are emulated ones (see devices.py);
    they need a real clock. `kernel_args` may hold a driver's parameters as `driver.name=value`: they reach a
    driver that is built in and one that the agent loads. `layout` 0 has all addresses fixed; any other number
    is a layout of its own: the kernel randomizes addresses (where it was built to) and memory is filled
    differently before the workload starts. The same number gives the same layout.
    """

    cpus: int = 2
    memory_mib: int = 1024
    clock: Literal["deterministic", "real"] = "deterministic"
    seed: int = 1
    kernel_args: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    accel: Accelerator = "tcg"
    layout: int = 0

    def __post_init__(self) -> None:
        device_options(self.devices)
        if self.clock == "real":
            return
        if self.devices:
            raise UsageError(
                f"a guest with {', '.join(self.devices)} cannot have a deterministic clock: QEMU serves "
                "emulated devices in the host's time, and two boots differ",
                'take clock "real", or a device inside of the guest (ublk, null_blk, scsi_debug, nvmet)',
            )
        if self.accel != "tcg":
            raise UsageError(
                f"{self.accel} cannot count a guest's instructions, which a deterministic clock is made of",
                'take clock "real", or the accelerator "tcg"',
            )

    def command_line(self) -> str:
        """Of the guest's kernel."""
        deterministic: tuple[str, ...] = _DETERMINISTIC_ARGS if self.clock == "deterministic" else ()
        if self.layout:
            deterministic = tuple(word for word in deterministic if word not in _FIXED_ADDRESSES)
        return " ".join((*_FIXED_ARGS, *deterministic, *self.kernel_args))

    def facts(self) -> dict[str, Any]:
        """What must agree for two boots to be comparable."""
        return {
            "accel": self.accel,
            "clock": self.clock,
            "cpus": self.cpus,
            "memory_mib": self.memory_mib,
            "devices": " ".join(self.devices),
            "layout": self.layout,
            "qemu_flags": " ".join(self._clock_options()),
            "kernel_args": self.command_line(),
        }

    def _clock_options(self) -> tuple[str, ...]:
        return _DETERMINISTIC if self.clock == "deterministic" else _REAL_TIME[self.accel]

    def options(self, image: Path, initramfs: Path, console: Path | None) -> list[str]:
        """Of QEMU. The console is a file: a pipe that fills up would be waited for in the host's time.

        Without one it is this terminal, whose Ctrl-C then goes to the guest.
        """
        terminal = ("-chardev", "stdio,id=terminal,signal=off", "-serial", "chardev:terminal")
        return [
            *("-machine", "pc", "-nodefaults", "-no-user-config", "-no-reboot"),
            # core/plugin/steady knows a thread by its name.
            *("-name", "mqlab,debug-threads=on", "-display", "none", "-monitor", "none"),
            *self._clock_options(),
            *("-seed", str(self.seed)),
            *("-smp", str(self.cpus), "-m", f"{self.memory_mib}M"),
            *("-kernel", str(image), "-initrd", str(initramfs)),
            *("-append", self.command_line()),
            *(("-serial", f"file:{console}") if console is not None else terminal),
            *device_options(self.devices),
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
