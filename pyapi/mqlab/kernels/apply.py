"""Patches put on the few files that they touch, with patch(1): offsets and fuzz as it allows them.

Nothing of the tree itself is written: the files are copied, patched in a place of their own, and handed back
when all patches went in. So a series goes in whole or not at all, and a file that ends up as it was keeps its
time, which make goes by.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.diffs import FileDiff, Hunk
from mqlab.kernels.patch_file import Patch

__all__ = ["Applied", "PatchFailedError", "apply_patches"]

_LIMIT_S = 60.0
_FILE = re.compile(r"^(?:patching|checking) file '?(.*?)'?(?: \(.*\))?$")
_FAILED = re.compile(r"^Hunk #(\d+) (?:FAILED|NOT MERGED)")
_MOVED = re.compile(r"^Hunk #\d+ succeeded at \d+ (.*)\.$")


class PatchFailedError(UsageError):
    """A patch does not apply. `hunk_number` counts from 1 in its file; 0 where the file itself is wrong."""

    def __init__(self, patch: Patch, path: str, hunk_number: int, hunk: Hunk | None, why: str) -> None:
        where = f"hunk {hunk_number} on {path}" if hunk_number else path
        super().__init__(
            f"patch {patch.number} ({patch.title()}) does not apply: {where}: {why}",
            "check that the patch is for this kernel, or choose others by their numbers",
        )
        self.patch = patch
        self.path = path
        self.hunk_number = hunk_number
        self.rejected = _printable(hunk.text()) if hunk else ""
        self.why = why


@dataclass(frozen=True)
class Applied:
    """What a series makes of the files that it touches: content and mode, None for one that is gone.

    `remarks` say which hunks went in elsewhere or with less context than they name.
    """

    files: dict[str, tuple[bytes, int] | None]
    remarks: tuple[str, ...]


def apply_patches(tree: Path, patches: Sequence[Patch]) -> Applied:
    """What the patches, in this order, make of a tree's files; PatchFailedError names the first failure."""
    program = shutil.which("patch")
    if program is None:
        raise UnsupportedError("there is no patch on this machine", "apt-get install patch")
    names = list(dict.fromkeys(name for patch in patches for name in patch.files()))
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise UsageError(f"a patch names {name}, which lies outside of the tree", "look at the patch")
    with tempfile.TemporaryDirectory(prefix="mqlab-patch-") as folder:
        stage = Path(folder)
        for name in names:
            if (tree / name).is_file():
                (stage / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, stage / name)
        remarks = [remark for patch in patches for remark in _apply_one(program, stage, patch)]
        return Applied({name: _content(stage / name) for name in names}, tuple(remarks))


def _content(path: Path) -> tuple[bytes, int] | None:
    return (path.read_bytes(), path.stat().st_mode & 0o777) if path.is_file() else None


def _apply_one(program: str, stage: Path, patch: Patch) -> list[str]:
    originals = {file.old_path: _lines(stage / file.old_path) for file in patch.diff.files}
    done = subprocess.run(
        [
            program,
            "-p1",
            "--forward",
            "--batch",
            "--no-backup-if-mismatch",
            "--reject-file=-",
            "-d",
            str(stage),
        ],
        input=patch.data(),
        capture_output=True,
        timeout=_LIMIT_S,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    output = done.stdout.decode(errors="replace").splitlines()
    if done.returncode != 0:
        raise _failure(patch, originals, output, done.stderr.decode(errors="replace"))
    return _remarks(patch, output)


def _lines(path: Path) -> list[str] | None:
    return path.read_text(errors="replace").removesuffix("\n").split("\n") if path.is_file() else None


def _remarks(patch: Patch, output: Sequence[str]) -> list[str]:
    """One line a file; offsets are common and harmless, fuzz is worth a look."""
    moved: dict[str, list[str]] = {}
    name = ""
    for line in output:
        if found := _FILE.match(line):
            name = found[1]
        elif found := _MOVED.match(line):
            moved.setdefault(name, []).append(found[1])
    return [
        f"patch {patch.number}: {name}: {len(how)} hunk{'s' * (len(how) > 1)} moved"
        + (", with less context than given" if any("fuzz" in text for text in how) else "")
        for name, how in moved.items()
    ]


def _failure(
    patch: Patch, originals: dict[str, list[str] | None], output: Sequence[str], errors: str
) -> PatchFailedError:
    for file in patch.diff.files:
        if originals[file.old_path] is None and not _creates(file):
            return PatchFailedError(patch, file.old_path, 0, None, "there is no such file in this kernel")
    name = ""
    for line in output:
        if found := _FILE.match(line):
            name = found[1]
        if (found := _FAILED.match(line)) is None:
            continue
        number = int(found[1])
        for file in patch.diff.files:
            if name in (file.path, file.old_path):
                hunk = file.hunks[number - 1]
                why = _why(hunk, originals[file.old_path] or [])
                return PatchFailedError(patch, file.path, number, hunk, why)
    for file in patch.diff.files:
        if _is_there(file, originals[file.old_path] or []):
            return PatchFailedError(patch, file.path, 0, None, "it is in this kernel already")
    said = "; ".join((errors.splitlines() or list(output))[-2:])
    return PatchFailedError(patch, patch.diff.files[0].path, 0, None, f"patch said: {said}")


def _creates(file: FileDiff) -> bool:
    return any(line.startswith(("--- /dev/null", "new file mode")) for line in file.head)


def _is_there(file: FileDiff, lines: Sequence[str]) -> bool:
    """Whether the file has already what the patch would make of it."""
    text = "\n".join(lines)
    after = ("\n".join(line[1:] for line in h.lines if line[:1] in (" ", "+")) for h in file.hunks)
    return bool(file.hunks) and all(part in text for part in after)


def _why(hunk: Hunk, lines: Sequence[str]) -> str:
    """Where the hunk fits best, and the first line there that is another."""
    wanted = hunk.before()
    best, at = 0, -1
    for start in range(max(1, len(lines) - len(wanted) + 1)):
        score = sum(1 for a, b in zip(lines[start:], wanted, strict=False) if a == b and a.strip())
        distance = abs(start + 1 - hunk.old_start)
        if score > best or (score == best and at >= 0 and distance < abs(at + 1 - hunk.old_start)):
            best, at = score, start
    if best == 0:
        return "none of its lines are in the file"
    for offset, expected in enumerate(wanted):
        found = lines[at + offset] if at + offset < len(lines) else "(the end of the file)"
        if found != expected:
            expected = _printable(expected.strip())
            return f"line {at + offset + 1} is '{found.strip()}' where it expects '{expected}'"
    return f"it fits only at line {at + 1}, out of order with the hunks before it"


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()
