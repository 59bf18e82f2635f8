"""Which accelerator runs a guest in real time: KVM where it does, else emulation.

That /dev/kvm exists proves nothing, nor that QEMU lives: on a nested host without hardware virtualization a
guest spins or dies under it. So a kernel is booted once until its agent answers, and what came of it is
remembered until this machine boots again. A deterministic clock is always emulated and needs no probe.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mqlab.errors import MqlabError
from mqlab.kernels.cache import cache_root
from mqlab.vm.boot import boot_guest
from mqlab.vm.initramfs import build, spec_document
from mqlab.vm.qemu import Accelerator, Machine, Qemu

__all__ = ["Choice", "choose_accelerator"]

_DEVICE = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# A guest under KVM is there in a second; one that KVM cannot run spins for ever.
_PROBE_LIMIT_S = 10.0
_NO_WAIT = {"windows": 0}


@dataclass(frozen=True)
class Choice:
    """An accelerator and, where it is not KVM, why."""

    accel: Accelerator
    reason: str = ""


def _unusable() -> str:
    """Why KVM cannot even be tried, "" when it can."""
    if not _DEVICE.exists():
        return f"there is no {_DEVICE}"
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return f"{_DEVICE} may not be opened by this user (who is not in its group?)"
    return ""


def _probe(qemu: Qemu, image: Path, agent: bytes) -> Choice:
    machine = Machine(cpus=1, memory_mib=512, clock="real", accel="kvm")
    try:
        initramfs = build(agent, spec_document([], quiet=_NO_WAIT))
        boot_guest(qemu, machine, image, initramfs, limit_s=_PROBE_LIMIT_S)
    except MqlabError as error:
        first = error.message.splitlines()[0]
        return Choice("tcg", f"{_DEVICE} is there but runs no guest: {first}")
    return Choice("kvm")


class _Memory:
    """The answer of the last probe, valid for this boot of the machine and this QEMU."""

    def __init__(self, qemu: Qemu) -> None:
        self._path = cache_root() / "accelerator.json"
        boot_id = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
        self._key = {"boot": boot_id, "qemu": qemu.version, "program": str(qemu.program)}

    def recall(self) -> Choice | None:
        try:
            known = json.loads(self._path.read_text())
            return Choice(known["accel"], known["reason"]) if known["key"] == self._key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, choice: Choice) -> None:
        text = json.dumps({"key": self._key, "accel": choice.accel, "reason": choice.reason})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            staged = self._path.with_suffix(f".{os.getpid()}")
            staged.write_text(text)
            staged.replace(self._path)
        except OSError:
            return


def choose_accelerator(
    qemu: Qemu, image: Path, agent: bytes, *, say: Callable[[str], None] = lambda _line: None
) -> Choice:
    """KVM where a guest with this kernel runs under it, else "tcg" with the reason."""
    if reason := _unusable():
        return Choice("tcg", reason)
    memory = _Memory(qemu)
    known = memory.recall()
    if known is not None:
        return known
    say("trying whether KVM runs a guest here (once until this machine boots again)")
    choice = _probe(qemu, image, agent)
    memory.keep(choice)
    if choice.reason:
        say(f"{choice.reason}; guests are emulated")
    return choice
