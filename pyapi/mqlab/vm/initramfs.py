"""The initramfs of a guest: the agent as init, the modules that the workload needs, and the spec."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqlab.errors import UnsupportedError
from mqlab.vm import cpio
from mqlab.vm.modules import Module, params_by_module

__all__ = ["agent_path", "build", "spec_document"]

FORMAT = "mqlab.agent/1"
# Of the guest's time. A guest that only waits is there in seconds where its clock skips idle time.
GUEST_LIMIT_S = 1800.0

_LAYOUT_CHUNK = 5 * 4096 + 512
_FOLDERS = ("dev", "proc", "sys", "tmp", "mqlab", "mqlab/modules")


def agent_path() -> Path:
    """The static mqlab-agent that was installed with the package."""
    path = Path(str(importlib.resources.files("mqlab") / "bin" / "mqlab-agent"))
    if not path.is_file():
        raise UnsupportedError(
            f"there is no agent at {path}", "install mqlab from a build that made mqlab-agent (make setup)"
        )
    return path


def _module_path(index: int, module: Module) -> str:
    return f"mqlab/modules/{index:02d}-{module.name}.ko"


def spec_document(
    jobs: Sequence[Mapping[str, Any]],
    modules: Sequence[Module] = (),
    *,
    module_params: Mapping[str, str] | None = None,
    kernel_args: Sequence[str] = (),
    quiet: Mapping[str, Any] | None = None,
    limit_s: float = GUEST_LIMIT_S,
    symbols: bool = False,
) -> dict[str, Any]:
    """What the agent reads: jobs are {"workload": NAME, "spec": {...}}.

    `kernel_args` are the machine's: what they say of a driver (`ublk_drv.ublks_max=4096`) is given to its
    module as well, as modprobe does; the kernel does that only for what is built in. `limit_s` is how long
    the jobs may take in the guest's own time; `symbols` has the agent tell the kernel's functions afterwards.
    """
    params = {**params_by_module(kernel_args), **(module_params or {})}
    return {
        "format": FORMAT,
        "limit_ms": round(limit_s * 1000),
        "symbols": symbols,
        "jobs": [dict(job) for job in jobs],
        "modules": [
            {"path": f"/{_module_path(index, module)}", "params": params.get(module.name, "")}
            for index, module in enumerate(modules)
        ],
        "quiet": dict(quiet or {}),
    }


def build(
    agent: bytes,
    document: Mapping[str, Any],
    modules: Sequence[Module] = (),
    *,
    layout: int = 0,
    extra: Sequence[cpio.Entry] = (),
) -> bytes:
    """The archive. The same arguments give the same bytes, which a deterministic boot needs.

    `layout` puts that many odd-sized chunks of nothing in, ahead of all else: whatever the kernel allocates
    later lies elsewhere, and its own randomization, seeded by what the boot loader tells, comes out
    otherwise. `extra` follows all else.
    """
    entries = [cpio.directory(name) for name in _FOLDERS]
    entries.append(cpio.device("dev/console", 5, 1))
    if layout:
        entries.append(cpio.file("mqlab/layout", bytes(layout * _LAYOUT_CHUNK)))
    entries.append(cpio.file("init", agent, executable=True))
    entries.append(cpio.file("mqlab/spec.json", json.dumps(document, sort_keys=True).encode()))
    entries.extend(
        cpio.file(_module_path(index, module), module.content) for index, module in enumerate(modules)
    )
    return cpio.archive([*entries, *extra])
