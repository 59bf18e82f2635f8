"""How much a build will compile and how long that takes, told before it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mqlab.kernels.cache import KernelCache
from mqlab.kernels.tools import job_count

__all__ = ["Effort", "base_effort", "count_dependants", "patched_effort"]

# A first guess, until this machine has built one: the shipped fragments on 7.3, and one core of 2020.
_TYPICAL_OBJECTS = {"base": 1560, "rt": 1560, "debug": 1600}
_TYPICAL_S_PER_OBJECT = 0.5
_UNPACK_S = 60.0
_LINK_S = 25.0
# Host tools in a fresh copy, and what holds version and symbols.
_ALWAYS_OBJECTS = 30


@dataclass(frozen=True)
class Effort:
    """`objects` to compile, and about how many seconds until the image is there."""

    objects: int
    seconds: float

    def text(self) -> str:
        took = f"{self.seconds:.0f} s" if self.seconds < 90 else f"{self.seconds / 60:.0f} minutes"
        return f"{self.objects} objects, about {took}"


def _past_builds(cache: KernelCache) -> list[dict[str, object]]:
    from mqlab.kernels.trees import TreeFolder

    folders = sorted(cache.trees.glob("*")) if cache.trees.is_dir() else []
    return [facts for folder in folders if (facts := TreeFolder(folder).base_facts()) is not None]


def _s_per_object(past: Iterable[dict[str, object]]) -> float:
    rates = [float(str(f["seconds"])) / int(str(f["objects"])) for f in past if f.get("objects")]
    return max(rates, default=_TYPICAL_S_PER_OBJECT / job_count())


def base_effort(cache: KernelCache, fragment: str, own_config: bool) -> Effort:
    """Of a whole tree, by what the last ones with this fragment took."""
    past = _past_builds(cache)
    alike = [int(str(f["objects"])) for f in past if f.get("fragment") == fragment]
    typical = 8000 if own_config else _TYPICAL_OBJECTS.get(fragment, _TYPICAL_OBJECTS["debug"])
    objects = alike[-1] if alike else typical
    return Effort(objects, objects * _s_per_object(past) + _UNPACK_S + _LINK_S)


def patched_effort(cache: KernelCache, tree: Path, touched: Iterable[str]) -> Effort:
    """Of patches on a built tree."""
    objects = count_dependants(tree, touched) + _ALWAYS_OBJECTS
    return Effort(objects, objects * _s_per_object(_past_builds(cache)) + _LINK_S)


def count_dependants(tree: Path, touched: Iterable[str]) -> int:
    """Objects of a built tree that were made from any of the files, as the compiler noted for make."""
    wanted = frozenset(touched)
    count = 0
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name not in ("Documentation", ".git")]
        for name in names:
            if name.endswith(".o.cmd"):
                words = Path(folder, name).read_text(errors="replace").split()
                count += not wanted.isdisjoint(words)
    return count
