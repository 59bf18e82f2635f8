"""Where workloads run. A target registers under its name; `get_target` makes one.

    register_target("vm", "mqlab.targets.vm", "VmTarget", "a kernel booted under QEMU")

A target's module is imported only when the target is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from mqlab.errors import UsageError
from mqlab.parameters import did_you_mean
from mqlab.targets.base import Basis, Target

__all__ = ["Basis", "Target", "get_target", "register_target", "target_help", "target_names"]


@dataclass(frozen=True, slots=True)
class _Entry:
    module: str
    factory: str
    help: str


_entries: dict[str, _Entry] = {
    "sim": _Entry("mqlab.targets.engine", "SimTarget", "the C++ engine in virtual time on simulated CPUs"),
    "native": _Entry(
        "mqlab.targets.engine", "NativeTarget", "the C++ engine with real threads in this process"
    ),
}


def register_target(name: str, module: str, factory: str, help: str) -> None:  # noqa: A002
    """Adds a target: `module`.`factory`() makes it."""
    _entries[name] = _Entry(module, factory, help)


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
    entry = _entries[name]
    return cast(Target, getattr(import_module(entry.module), entry.factory)())
