"""Where workloads run. A target registers under its name with a function that makes one.

The function imports what it needs, so that a target costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqlab.errors import UsageError
from mqlab.parameters import did_you_mean
from mqlab.targets.base import Basis, Manner, Target, manner_of

__all__ = [
    "Basis",
    "Manner",
    "Target",
    "get_target",
    "manner_of",
    "register_target",
    "target_help",
    "target_names",
]


@dataclass(frozen=True, slots=True)
class _Entry:
    make: Callable[[], Target]
    help: str


def _sim() -> Target:
    from mqlab.targets.engine import SimTarget

    return SimTarget()


def _native() -> Target:
    from mqlab.targets.engine import NativeTarget

    return NativeTarget()


def _vm() -> Target:
    from mqlab.targets.vm import VmTarget

    return VmTarget()


_entries: dict[str, _Entry] = {
    "sim": _Entry(_sim, "the C++ engine in virtual time on simulated CPUs"),
    "native": _Entry(_native, "the C++ engine with real threads in this process"),
    "vm": _Entry(_vm, "a real kernel booted under QEMU, its time counted in instructions"),
}


def register_target(name: str, make: Callable[[], Target], help_: str) -> None:
    """Adds a target, or replaces the one of that name."""
    _entries[name] = _Entry(make, help_)


def target_names() -> tuple[str, ...]:
    """All registered targets."""
    return tuple(_entries)


def target_help() -> dict[str, str]:
    """What each target is, in a line."""
    return {name: entry.help for name, entry in _entries.items()}


def get_target(name: str) -> Target:
    """A fresh target of that name."""
    if name not in _entries:
        raise UsageError(f"no target is called {name!r}", did_you_mean(name, list(_entries)))
    return _entries[name].make()
