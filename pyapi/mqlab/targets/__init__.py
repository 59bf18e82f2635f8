"""Where workloads run. A target registers under its name with a function that makes one.

The function imports what it needs, so that a target costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
    make: Callable[..., Target]
    help: str
    takes: tuple[str, ...] = ()


def _sim() -> Target:
    from mqlab.targets.engine import SimTarget

    return SimTarget()


def _native() -> Target:
    from mqlab.targets.engine import NativeTarget

    return NativeTarget()


def _vm(kernel: str | None = None, thread_files: Path | None = None) -> Target:
    from mqlab.targets.vm import VmTarget

    return VmTarget(kernel, thread_files)


_entries: dict[str, _Entry] = {
    "sim": _Entry(_sim, "the C++ engine in virtual time on simulated CPUs"),
    "native": _Entry(_native, "the C++ engine with real threads in this process"),
    "vm": _Entry(
        _vm, "a real kernel booted under QEMU, its time counted in instructions", ("kernel", "thread_files")
    ),
}


def register_target(name: str, make: Callable[..., Target], help_: str, takes: tuple[str, ...] = ()) -> None:
    """Adds a target, or replaces the one of that name. `takes` are the options that `make` has."""
    _entries[name] = _Entry(make, help_, takes)


def target_names() -> tuple[str, ...]:
    """All registered targets."""
    return tuple(_entries)


def target_help() -> dict[str, str]:
    """What each target is, in a line."""
    return {name: entry.help for name, entry in _entries.items()}


def get_target(name: str, *, kernel: str | None = None, thread_files: Path | None = None) -> Target:
    """A fresh target of that name.

    `kernel` and `thread_files` are for real kernels: a target that has none refuses a kernel and does not
    need the files.
    """
    if name not in _entries:
        raise UsageError(f"no target is called {name!r}", did_you_mean(name, list(_entries)))
    entry = _entries[name]
    if kernel and "kernel" not in entry.takes:
        raise UsageError(f"the target {name} runs no kernel of your choice", "give --target vm with --kernel")
    given = {"kernel": kernel, "thread_files": thread_files}
    return entry.make(**{option: value for option, value in given.items() if option in entry.takes and value})
