"""Trees that kernels are built in, kept so that the next kernel costs only what its patches touch.

For each source, configuration and compiler there is one folder:

    base/        the source and what was built from it, never patched; unchanging once `base.json` is there
    work1/ ...   copies of it in which patched kernels are built, one at a time each; `work1.json` names the
                 files that may differ from base's

Source files of a copy are hard links to base's, so nothing may write into them: they are only ever
replaced. What make wrote is copied. A file `NAME.building` stands beside a tree while make runs in it; where
it is found without the lock being held, that make was killed, and what it wrote last is not to be trusted.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlab.kernels.apply import Applied
from mqlab.kernels.errors import BuildFailedError
from mqlab.kernels.locks import lock_file, try_lock
from mqlab.kernels.sources import Source

__all__ = ["TreeFolder", "WorkTree", "building"]

_MOST_WORK_TREES = 16
_KEPT_WORK_TREES = 2
_SUSPECT_S = 60.0


@dataclass(frozen=True)
class WorkTree:
    """A tree that is held: no other process builds in it until its lock, an open file, is closed."""

    path: Path
    lock: int

    @property
    def config(self) -> Path:
        return self.path / ".config"


class TreeFolder:
    """The trees of one source, configuration and compiler."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        self._unpacked = folder / "base.unpacked"

    def base_facts(self) -> dict[str, Any] | None:
        """What was noted when base was built; None while it is not."""
        return _read_json(self.folder / "base.json")

    def finish_base(self, facts: dict[str, Any]) -> None:
        _write_json(self.folder / "base.json", facts)

    @contextmanager
    def hold_base(self, source: Source, config_key: str, say: Callable[[str], None]) -> Iterator[WorkTree]:
        """The base tree, to build in; unpacked where it is not there."""
        with lock_file(self.folder / "base.lock", say=say, what=f"the tree of {source.text}") as lock:
            if not self.base.is_dir():
                self._unpack(source, config_key, say)
            _distrust_last_writes(_marker(self.base), self.base, frozenset())
            yield WorkTree(self.base, lock)

    def _unpack(self, source: Source, config_key: str, say: Callable[[str], None]) -> None:
        """From the source, or from the built tree of another commit, so that only what differs is built."""
        unpacking = self.folder / "base.unpacking"
        shutil.rmtree(unpacking, ignore_errors=True)
        for other in self._relatives(config_key):
            changed = source.changed_since(str((other.base_facts() or {}).get("identity", "")))
            if changed is None:
                continue
            with lock_file(other.folder / "base.lock", shared=True, say=say, what="a tree to copy"):
                if other.base_facts() is None:
                    continue
                say(f"starting {source.text} from a built tree that differs in {len(changed)} files")
                _copy_tree(other.base, unpacking, other._unpacked.stat().st_mtime)
                shutil.copy2(other._unpacked, self._unpacked)
            for name, content in changed.items():
                _set_file(unpacking / name, content)
            unpacking.rename(self.base)
            return
        say(f"unpacking {source.text}, {source.version}")
        unpacking.mkdir(parents=True)
        source.unpack(unpacking)
        self._unpacked.touch()
        unpacking.rename(self.base)

    def _relatives(self, config_key: str) -> list[TreeFolder]:
        """Built trees with the same configuration and compiler, the last used first."""
        others = [path for path in self.folder.parent.iterdir() if path.is_dir() and path != self.folder]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        folders = [TreeFolder(path) for path in others]
        return [
            f for f in folders if (f.base_facts() or {}).get("config_key") == config_key and f.base.is_dir()
        ]

    @contextmanager
    def hold_work(self, say: Callable[[str], None]) -> Iterator[WorkTree]:
        """A copy of the built base tree that no other process uses. The first few are kept afterwards."""
        with lock_file(self.folder / "base.lock", shared=True, say=say, what="the base tree"):
            for number in range(1, _MOST_WORK_TREES + 1):
                with try_lock(self.folder / f"work{number}.lock") as lock:
                    if lock is None:
                        continue
                    work = self.folder / f"work{number}"
                    self._prepare(work, say)
                    try:
                        yield WorkTree(work, lock)
                    finally:
                        if number > _KEPT_WORK_TREES:
                            _remove_tree(work)
                    return
        raise RuntimeError("no tree to build in is free")

    def _prepare(self, work: Path, say: Callable[[str], None]) -> None:
        copying = work.with_name(f"{work.name}.copying")
        shutil.rmtree(copying, ignore_errors=True)
        if not work.is_dir():
            say("copying the built tree")
            _copy_tree(self.base, copying, self._unpacked.stat().st_mtime)
            _write_json(_state(work), {"touched": []})
            copying.rename(work)
        state = _read_json(_state(work))
        if state is None:  # nothing is known about it
            _remove_tree(work)
            self._prepare(work, say)
            return
        _distrust_last_writes(_marker(work), work, frozenset(state["touched"]))

    def set_patches(self, work: WorkTree, applied: Applied) -> None:
        """Makes the tree base plus these files.

        Only files whose content changes are written, so that only what depends on them is built again.
        """
        before = set((_read_json(_state(work.path)) or {"touched": []})["touched"])
        _write_json(_state(work.path), {"touched": sorted(before | set(applied.files))})
        for name in sorted(before - set(applied.files)):
            original = self.base / name
            content = (original.read_bytes(), original.stat().st_mode & 0o777) if original.is_file() else None
            _set_file(work.path / name, content)
        for name, content in applied.files.items():
            _set_file(work.path / name, content)
        _write_json(_state(work.path), {"touched": sorted(applied.files)})


@contextmanager
def building(tree: WorkTree) -> Iterator[None]:
    """While make runs in the tree. The marker stays when make was broken off, not when it failed."""
    marker = _marker(tree.path)
    marker.touch()
    try:
        yield
    except BuildFailedError:
        marker.unlink()
        raise
    marker.unlink()


def _marker(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.building")


def _state(work: Path) -> Path:
    return work.with_name(f"{work.name}.json")


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write_json(path: Path, fields: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as file:
        json.dump(fields, file, indent=2)
    os.replace(file.name, path)


def _set_file(path: Path, content: tuple[bytes, int] | None) -> None:
    """Replaced, never written into: the file may be a link to base's."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    data, mode = content
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".mqlab-", delete=False) as file:
        file.write(data)
    os.chmod(file.name, mode)
    os.replace(file.name, path)


def _distrust_last_writes(marker: Path, tree: Path, sources: frozenset[str]) -> None:
    """Removes what a killed make wrote last: a file cut short looks up to date to the next make."""
    if not marker.exists():
        return
    start = marker.stat().st_mtime
    written = [(p, t) for p, t in _files(tree) if t >= start and str(p.relative_to(tree)) not in sources]
    newest = max((t for _, t in written), default=0.0)
    for path, time in written:
        if time >= newest - _SUSPECT_S and path.name != ".config":
            path.unlink()
    marker.unlink()


def _files(tree: Path) -> Iterator[tuple[Path, float]]:
    for folder, _, names in os.walk(tree):
        for name in names:
            path = Path(folder, name)
            yield path, path.lstat().st_mtime


def _copy_tree(source: Path, target: Path, unpacked: float) -> None:
    """What is older than `unpacked` is source and linked; what was built is copied with its time."""
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if status.st_mtime <= unpacked and not os.path.islink(path):
                os.link(path, into / name)
            else:
                shutil.copy2(path, into / name, follow_symlinks=False)


def _remove_tree(work: Path) -> None:
    """The state goes first: a tree without one is not used."""
    _state(work).unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    _marker(work).unlink(missing_ok=True)
