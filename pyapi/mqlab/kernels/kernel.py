"""A kernel that can be booted, as it lies on disk."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Kernel", "PatchNote", "config_value"]

_HASH_DIGITS = 16


def config_value(text: str, name: str) -> str | None:
    """The value of CONFIG_`name` in a kernel configuration, or None when it is not set."""
    found = re.search(rf"^CONFIG_{re.escape(name)}=(.*)$", text, re.MULTILINE)
    return found[1].strip('"') if found else None


@dataclass(frozen=True)
class PatchNote:
    """What a kernel keeps of a patch that it was built with."""

    id: str
    title: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """An image with its modules and configuration.

    `source` is what was asked for, `version` the full version of what came; `modules` is a folder like
    lib/modules/RELEASE. Configuration and modules may be unknown for an image of the user's own. Compiler,
    fragment and patches are those of a kernel that was built here; `name` is that of its entry in the cache,
    and `made` the time (UTC) when it came there.
    """

    source: str
    release: str
    version: str
    image: Path
    modules: Path | None = None
    config: Path | None = None
    compiler: str = ""
    fragment: str = ""
    patches: tuple[PatchNote, ...] = ()
    name: str = ""
    made: str = ""

    @property
    def patch_ids(self) -> tuple[str, ...]:
        """The same for the same changes, whatever file they came from."""
        return tuple(patch.id for patch in self.patches)

    def config_text(self) -> str:
        return self.config.read_text(errors="replace") if self.config is not None else ""

    def hz(self) -> int | None:
        """Ticks a second that it was built for."""
        value = config_value(self.config_text(), "HZ")
        return int(value) if value is not None else None

    def config_hash(self) -> str:
        """Of the configuration, or of the image where that is unknown."""
        known = self.config if self.config is not None else self.image
        return hashlib.sha256(known.read_bytes()).hexdigest()[:_HASH_DIGITS]
