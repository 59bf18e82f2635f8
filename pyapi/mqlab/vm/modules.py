"""Kernel modules for an initramfs: which files, in which order, unpacked.

Dependencies are read from the modules themselves (their `depends=`), since a package that was only unpacked
has no modules.dep.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mqlab.errors import UnsupportedError

__all__ = ["Module", "dependencies", "load_order", "module_files", "params_by_module"]

_SUFFIX = re.compile(r"\.ko(\.xz|\.gz|\.zst)?$")
_PARAM = re.compile(r"(?P<module>[A-Za-z0-9_-]+)\.(?P<param>[A-Za-z0-9_]+(?:=.*)?)$")
_DEPENDS = re.compile(rb"(?:^|\0)depends=([^\0]*)\0")


@dataclass(frozen=True)
class Module:
    """A module, unpacked."""

    name: str
    content: bytes


def _name_of(path: Path) -> str:
    return _SUFFIX.sub("", path.name).replace("-", "_")


def module_files(folder: Path) -> dict[str, Path]:
    """Every module under lib/modules/RELEASE by name."""
    return {_name_of(path): path for path in sorted(folder.rglob("*.ko*")) if _SUFFIX.search(path.name)}


def _unzstd(path: Path) -> bytes:
    tool = shutil.which("zstd")
    if tool is None:
        raise UnsupportedError(f"{path.name} is packed with zstd and there is no zstd", "install zstd")
    return subprocess.run([tool, "-dcq", str(path)], check=True, capture_output=True).stdout


def _unpack(path: Path) -> bytes:
    match path.suffix:
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case ".gz":
            return gzip.decompress(path.read_bytes())
        case ".zst":
            return _unzstd(path)
        case _:
            return path.read_bytes()


def _depends_of(content: bytes) -> list[str]:
    found = _DEPENDS.search(content)
    names = found.group(1).decode().split(",") if found else []
    return [name.replace("-", "_") for name in names if name]


def params_by_module(kernel_args: Sequence[str]) -> dict[str, str]:
    """Parameters of drivers in a kernel's arguments (`module.name=value`) by module, as insmod takes them."""
    params: dict[str, list[str]] = {}
    for argument in kernel_args:
        if found := _PARAM.match(argument):
            params.setdefault(found["module"].replace("-", "_"), []).append(found["param"])
    return {module: " ".join(given) for module, given in params.items()}


def dependencies(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Of each module all that it needs, directly or not, nearest first."""
    direct = {module.name: _depends_of(module.content) for module in modules}

    def needed_by(name: str) -> list[str]:
        found: dict[str, None] = {}
        for needed in direct.get(name, []):
            if needed in direct:
                found |= dict.fromkeys([needed, *needed_by(needed)])
        return list(found)

    return {name: needed_by(name) for name in direct}


def load_order(folder: Path, wanted: list[str]) -> list[Module]:
    """The wanted modules and what they need, each after its needs.

    A wanted name without a file is left out: it is built in, or the kernel does not have it, and then the
    workload finds that out by probing and says so.
    """
    files = module_files(folder)
    ordered: dict[str, Module] = {}

    def visit(name: str) -> None:
        if name in ordered or name not in files:
            return
        content = _unpack(files[name])
        for needed in _depends_of(content):
            visit(needed)
        ordered[name] = Module(name, content)

    for name in wanted:
        visit(name.replace("-", "_"))
    return list(ordered.values())
