"""What lies in the cache, how large it is, and how it is made smaller."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from mqlab.errors import UsageError
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.kernel import Kernel
from mqlab.kernels.locks import try_lock
from mqlab.kernels.trees import TreeFolder

__all__ = ["CacheItem", "list_items", "list_kernels", "parse_size", "prune_cache", "remove_kernels"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class CacheItem:
    """Something that can be removed: a kernel, a tree that kernels are built in, or a fetched source."""

    kind: Literal["kernel", "tree", "source"]
    name: str
    path: Path
    size_bytes: int
    used: datetime

    def about(self) -> str:
        """What a tree is of."""
        facts = TreeFolder(self.path).base_facts() if self.kind == "tree" else None
        if facts is not None:
            return f"{facts['source']} {facts['version']}, fragment {facts['fragment']}"
        return "not finished" if self.kind == "tree" else ""


def list_kernels(cache: KernelCache | None = None) -> list[Kernel]:
    """Every kernel in the cache, by name."""
    cache = cache or KernelCache()
    return [kernel for name in cache.names() if (kernel := cache.find(name)) is not None]


def list_items(cache: KernelCache | None = None) -> list[CacheItem]:
    """Everything in the cache, what was used last first."""
    cache = cache or KernelCache()
    items = [
        *(_item("kernel", cache.entries / name) for name in cache.names()),
        *(_item("tree", path) for path in _folders(cache.trees)),
        *(_item("source", path) for path in _folders(cache.sources)),
    ]
    return sorted(items, key=lambda item: item.used, reverse=True)


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        yield from (
            path for path in sorted(parent.iterdir()) if path.is_dir() and not path.name.startswith(".")
        )


def _item(kind: Literal["kernel", "tree", "source"], path: Path) -> CacheItem:
    used = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return CacheItem(kind, path.name, path, _size_bytes(path), used)


def _size_bytes(top: Path) -> int:
    """On disk; what is linked twice counts once."""
    seen: set[int] = set()
    total = 0
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:  # a build goes on there
                continue
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += status.st_blocks * 512
    return total


def remove_kernels(names: Sequence[str], cache: KernelCache | None = None) -> list[CacheItem]:
    """Removes kernels, trees or sources by name, all or none; what was removed."""
    items = {item.name: item for item in list_items(cache)}
    for name in names:
        if name not in items:
            raise UsageError(f"nothing in the cache is called {name!r}", "see `mqlab kernel list`")
    return [items[name] for name in names if _remove(items[name])]


def prune_cache(max_bytes: int, cache: KernelCache | None = None) -> list[CacheItem]:
    """Removes what was not used for longest until all is at most so large; what was removed.

    Trees that are being built in stay.
    """
    items = list_items(cache)
    total = sum(item.size_bytes for item in items)
    removed: list[CacheItem] = []
    for item in reversed(items):
        if total <= max_bytes:
            break
        if _remove(item):
            removed.append(item)
            total -= item.size_bytes
    return removed


def _remove(item: CacheItem) -> bool:
    """Whether it was removed. A folder is renamed first, so that one that is half gone is nobody's."""
    with ExitStack() as stack:
        if item.kind == "tree":
            for path in item.path.glob("*.lock"):
                if stack.enter_context(try_lock(path)) is None:
                    return False
        doomed = item.path.with_name(f".removing-{item.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        item.path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    return True


def parse_size(text: str) -> int:
    """`10G`, `500M` or bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise UsageError(f"{text!r} is no size", "write for instance 10G or 500M")
    return int(float(found[1]) * _UNITS[found[2].upper()])
