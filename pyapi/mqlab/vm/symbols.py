"""The functions of a guest's kernel by address.

Where they come from: System.map beside an image without modules; else the guest's own /proc/kallsyms, told by
the agent once its jobs are done and kept in the cache, since a stock kernel has a hundred thousand of them.
Addresses are the same in every boot, as the deterministic clock's guests are started without KASLR.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mqlab.kernels.cache import cache_root
from mqlab.vm.modules import Module

__all__ = ["Symbols", "known_symbols", "parse_told", "remember_symbols"]

_CODE = frozenset("tTwW")
_KEY_DIGITS = 24


@dataclass(frozen=True)
class Symbols:
    """Functions by rising address; of several at one address the first is taken."""

    addresses: tuple[int, ...]
    names: tuple[str, ...]

    def at(self, address: int) -> tuple[str, int] | None:
        """The function that `address` lies in and where that begins; None below the first."""
        index = bisect_right(self.addresses, address) - 1
        return (self.names[index], self.addresses[index]) if index >= 0 else None


def _made(pairs: list[tuple[int, str]]) -> Symbols:
    first: dict[int, str] = {}
    for address, name in sorted(pairs, key=lambda pair: pair[0]):
        first.setdefault(address, name)
    return Symbols(tuple(first), tuple(first.values()))


def parse_told(text: str) -> Symbols:
    """What the agent tells: "DELTA NAME DELTA NAME ..."."""
    words = text.split()
    pairs: list[tuple[int, str]] = []
    address = 0
    for delta, name in zip(words[::2], words[1::2], strict=True):
        address += int(delta, 16)
        pairs.append((address, name))
    return _made(pairs)


def _parse_map(text: str) -> Symbols:
    lines = (line.split() for line in text.splitlines())
    return _made([(int(parts[0], 16), parts[2]) for parts in lines if len(parts) == 3 and parts[1] in _CODE])


def _cached(image: Path, modules: Sequence[Module]) -> Path:
    digest = hashlib.sha256(image.read_bytes())
    for module in modules:
        digest.update(module.name.encode() + hashlib.sha256(module.content).digest())
    return cache_root() / "symbols" / digest.hexdigest()[:_KEY_DIGITS]


def known_symbols(image: Path, modules: Sequence[Module]) -> Symbols | None:
    """None where the guest has to tell them."""
    beside = image.parent / "System.map"
    if not modules and beside.is_file():
        return _parse_map(beside.read_text(errors="replace"))
    try:
        return parse_told(_cached(image, modules).read_text())
    except (OSError, ValueError):
        return None


def remember_symbols(image: Path, modules: Sequence[Module], told: str) -> None:
    """Keeps what a guest told; where nothing can be written, the next guest tells it again."""
    path = _cached(image, modules)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as file:
            file.write(told)
        os.replace(file.name, path)
    except OSError:
        return
