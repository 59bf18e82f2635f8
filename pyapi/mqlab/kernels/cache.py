"""The kernel cache: a folder of finished entries, each made whole or not at all.

Several processes may use it at once. An entry is made in a folder beside it and renamed, so that an
interrupted fetch leaves nothing that looks like a kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.kernels.kernel import Kernel, PatchNote

__all__ = ["KernelCache", "cache_root"]

_DESCRIPTION = "kernel.json"
_SCHEMA = 1
_MAKING = ".making-"


def cache_root() -> Path:
    """$XDG_CACHE_HOME/mqlab, by default ~/.cache/mqlab."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mqlab"


class KernelCache:
    """Kernels by entry name."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else cache_root()
        self.entries = self.root / "kernels"
        self.sources = self.root / "sources"
        self.trees = self.root / "trees"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time, for what fetches."""
        try:
            self.entries.mkdir(parents=True, exist_ok=True)
            lock = (self.root / "kernels.lock").open("a")
        except OSError as error:
            raise UnsupportedError(
                f"making the kernel cache {self.entries} was answered with: {error}",
                "set XDG_CACHE_HOME to a folder that can be written",
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self.entries.glob(f"{_MAKING}*"):  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            yield

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A fresh folder on the cache's own file system, gone afterwards. Only while the cache is locked."""
        folder = Path(tempfile.mkdtemp(prefix=_MAKING, dir=self.entries))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, name: str, staged: Path, kernel: Kernel) -> Kernel:
        """Makes a staged folder, which the kernel's paths lie in, an entry."""
        fields = {
            "schema": _SCHEMA,
            "source": kernel.source,
            "release": kernel.release,
            "version": kernel.version,
            "image": str(kernel.image.relative_to(staged)),
            "modules": str(kernel.modules.relative_to(staged)) if kernel.modules else None,
            "config": str(kernel.config.relative_to(staged)) if kernel.config else None,
            "compiler": kernel.compiler,
            "fragment": kernel.fragment,
            "patches": [asdict(patch) for patch in kernel.patches],
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        (staged / _DESCRIPTION).write_text(json.dumps(fields, indent=2) + "\n")
        entry = self.entries / name
        if entry.exists():  # what is there cannot be read, else it would have been used
            shutil.rmtree(entry)
        staged.rename(entry)
        staged.mkdir()  # for staging() to remove
        kept = self.find(name)
        assert kept is not None
        return kept

    def find(self, name: str) -> Kernel | None:
        """An entry, or None when there is none that can be read."""
        entry = self.entries / name
        try:
            fields = json.loads((entry / _DESCRIPTION).read_text())
        except (OSError, ValueError):
            return None
        if fields.get("schema") != _SCHEMA or not (entry / fields["image"]).is_file():
            return None
        return Kernel(
            source=fields["source"],
            release=fields["release"],
            version=fields["version"],
            image=entry / fields["image"],
            modules=entry / fields["modules"] if fields["modules"] else None,
            config=entry / fields["config"] if fields["config"] else None,
            compiler=fields.get("compiler", ""),
            fragment=fields.get("fragment", ""),
            patches=tuple(
                PatchNote(p["id"], p["title"], tuple(p["files"])) for p in fields.get("patches", [])
            ),
            name=name,
            made=fields.get("made", ""),
        )

    def find_key(self, key: str) -> Kernel | None:
        """The entry whose name ends in the key of what it was built from."""
        return next((self.find(name) for name in self.names() if name.endswith(f"-{key}")), None)

    def mark_used(self, name: str) -> None:
        """Prune removes what was not used for longest."""
        with contextlib.suppress(OSError):
            os.utime(self.entries / name)

    def names(self) -> list[str]:
        """Of all entries that can be read."""
        if not self.entries.is_dir():
            return []
        return sorted(
            path.name
            for path in self.entries.iterdir()
            if not path.name.startswith(".") and self.find(path.name) is not None
        )
