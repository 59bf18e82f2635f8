"""The series to be tried: the patches of a file, or the commits of a git tree."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mqlab.errors import UsageError
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.patch_file import Patch, PatchSelection
from mqlab.kernels.request import KernelRequest

__all__ = ["Series", "read_series"]


@dataclass(frozen=True)
class Series:
    """Patches, and how the kernel with some of them is asked for."""

    patches: tuple[Patch, ...]
    selection: PatchSelection
    source: str
    config: Path | None

    def request(self, fragment: str, count: int) -> KernelRequest:
        """With the first `count` patches."""
        chosen = tuple(patch.number for patch in self.patches[:count])
        patches = PatchSelection(self.selection.file, chosen) if count else None
        return KernelRequest(self.source, fragment, patches, self.config)


def read_series(
    file: str | Path, commits: str, source: str, numbers: Sequence[int] | None, config: Path | None
) -> Series:
    path = Path(file).expanduser()
    if commits:
        path, source = _read_commits(path, commits)
    elif path.is_dir():
        raise UsageError(
            f"{path} is a folder", "of a git tree, give the commits too: mqlab try TREE BASE..HEAD"
        )
    selection = PatchSelection(path, tuple(numbers) if numbers else None)
    return Series(tuple(selection.patches()), selection, source, config)


def _read_commits(tree: Path, commits: str) -> tuple[Path, str]:
    """The commits as an mbox in the cache, and their base as a source."""
    base, dots, head = commits.partition("..")
    if not base or not dots or head.startswith("."):
        raise UsageError(f"{commits!r} is no range of commits", "write BASE..HEAD")
    done = subprocess.run(
        ["git", "-C", str(tree), "format-patch", "--stdout", "--end-of-options", f"{base}..{head or 'HEAD'}"],
        capture_output=True,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise UsageError(
            f"reading {commits} of {tree} was answered with: {said}", "name a git tree and a range"
        )
    if not done.stdout.strip():
        raise UsageError(f"{commits} of {tree} holds no commit", "write BASE..HEAD, the older commit first")
    folder = KernelCache().root / "series"
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in f"{tree.resolve().name}-{commits}")
    path = folder / f"{name}-{hashlib.sha256(done.stdout).hexdigest()[:8]}.mbox"
    path.write_bytes(done.stdout)
    return path, f"tree:{tree}@{base}"
