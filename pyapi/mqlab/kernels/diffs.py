"""Diffs as they stand in a mail: whole, cut by whoever answered, quoted, or with stuffed context lines.

A hunk says in its head how many lines it has, so a diff ends where its last hunk is complete: what the mail
goes on with (a signature, a comment between two hunks) is never taken for code.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Diff", "FileDiff", "Hunk", "find_diffs"]

_START = re.compile(r"(?P<quote>(?:> ?)*)(?:diff --git (?P<a>\S+) (?P<b>\S+)$|--- \S)")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_EXTENDED = re.compile(
    r"(?:old|new|deleted file|new file) mode |(?:dis)?similarity index |(?:rename|copy) (?:from|to) "
    r"|index [0-9a-f]"
)
_STAT = re.compile(r"(?P<indent> +)\S+ +\| +\d+ [+-]")
_ID_DIGITS = 12


@dataclass(frozen=True)
class Hunk:
    """One hunk. `lines` keep their mark; a hunk that is not `whole` lacks lines at its end."""

    head: str
    old_start: int
    lines: tuple[str, ...]
    whole: bool

    def before(self) -> list[str]:
        """The lines that the file must have."""
        return [line[1:] for line in self.lines if line[:1] in (" ", "-")]

    def text(self) -> str:
        return "\n".join((self.head, *self.lines))


@dataclass(frozen=True)
class FileDiff:
    """What a diff does to one file; `path` is its name afterwards, or before where it is deleted."""

    path: str
    old_path: str
    head: tuple[str, ...]
    hunks: tuple[Hunk, ...]

    def whole(self) -> bool:
        return all(hunk.whole for hunk in self.hunks)

    def text(self) -> str:
        return "\n".join((*self.head, *(hunk.text() for hunk in self.hunks)))


@dataclass(frozen=True)
class Diff:
    """The diffs of files that follow each other. `quoted` counts the quote marks; lines count from 1."""

    files: tuple[FileDiff, ...]
    first_line: int
    last_line: int
    quoted: int

    def whole(self) -> bool:
        return all(file.whole() for file in self.files)

    def text(self) -> str:
        return "\n".join(file.text() for file in self.files) + "\n"

    def identity(self) -> str:
        """The same for every copy: blind to line numbers, blank space and index lines, which mails damage."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.old_path}\0{file.path}\0".encode())
            for hunk in file.hunks:
                marked = "\n".join(line[:1] + "".join(line[1:].split()) for line in hunk.lines)
                digest.update(f"{marked}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()[:_ID_DIGITS]

    def is_part_of(self, other: Diff) -> bool:
        """Whether each line of it stands in the other at the same place."""
        known = {(f.path, _numbers(h)): _squeezed(h) for f in other.files for h in f.hunks}
        for file in self.files:
            for hunk in file.hunks:
                lines = _squeezed(hunk)
                if known.get((file.path, _numbers(hunk)), ())[: len(lines)] != lines:
                    return False
        return True


def _numbers(hunk: Hunk) -> tuple[str, ...]:
    found = _HUNK.match(hunk.head)
    return found.groups() if found else ()


def _squeezed(hunk: Hunk) -> tuple[str, ...]:
    return tuple("".join(line.split()) for line in hunk.lines)


def find_diffs(lines: Sequence[str]) -> Iterator[Diff]:
    """Every diff in a text, in its order."""
    at = 0
    while at < len(lines):
        diff, after = _Reader(lines, at).read()
        if diff is not None:
            yield diff
        at = max(after, at + 1)


class _Reader:
    """Reads one diff that may begin at a line. Only one that has hunks, or that only renames, is one."""

    def __init__(self, lines: Sequence[str], at: int) -> None:
        self._all = lines
        self._at = at
        self._first = at
        found = _START.match(lines[at])
        self._quote = found["quote"] if found else None

    def read(self) -> tuple[Diff | None, int]:
        files: list[FileDiff] = []
        while (file := self._file()) is not None:
            files.append(file)
            if not file.whole():
                break
        if not files:
            return None, self._first + 1
        if self._stuffed(files):
            files = [_unstuffed(file) for file in files]
        quoted = (self._quote or "").count(">")
        return Diff(tuple(files), self._first + 1, self._at, quoted), self._at

    def _line(self, ahead: int = 0) -> str | None:
        """A line of the diff without its quote marks; None where the quote ends."""
        if self._quote is None or self._at + ahead >= len(self._all):
            return None
        line = self._all[self._at + ahead]
        if line.startswith(self._quote):
            return line[len(self._quote) :]
        return "" if line.strip() == self._quote.strip() else None

    def _file(self) -> FileDiff | None:
        start = self._at
        head: list[str] = []
        line = self._line()
        if line is not None and line.startswith("diff --git "):
            while line is not None and (not head or _EXTENDED.match(line)):
                head.append(line)
                self._at += 1
                line = self._line()
        following = self._line(1)
        if line is not None and line.startswith("--- ") and (following or "").startswith("+++ "):
            head += [line, following or ""]
            self._at += 2
        hunks = tuple(self._hunks())
        names = _names(head)
        if names is None or not (hunks or any(_EXTENDED.match(h) for h in head)):
            self._at = start
            return None
        return FileDiff(names[1], names[0], tuple(head), hunks)

    def _hunks(self) -> Iterator[Hunk]:
        while (line := self._line()) is not None and (found := _HUNK.match(line)) is not None:
            self._at += 1
            hunk = self._hunk(line, found)
            yield hunk
            if not hunk.whole:
                return

    def _hunk(self, head: str, found: re.Match[str]) -> Hunk:
        old, new = int(found[2] or 1), int(found[4] or 1)
        lines: list[str] = []
        while old > 0 or new > 0:
            line = self._line()
            mark = " " if line == "" else (line or "?")[0]
            if line is None or mark not in " +-\\" or (mark == "-" and not old) or (mark == "+" and not new):
                return Hunk(head, int(found[1]), tuple(lines), whole=False)
            old -= mark in " -"
            new -= mark in " +"
            lines.append(line or " ")
            self._at += 1
        if (self._line() or "").startswith("\\ "):
            lines.append(self._line() or "")
            self._at += 1
        return Hunk(head, int(found[1]), tuple(lines), whole=True)

    def _stuffed(self, files: Sequence[FileDiff]) -> bool:
        """Whether a mailer put a space before every line that begins with one (RFC 3676, format=flowed)."""
        context = [line for f in files for h in f.hunks for line in h.lines if line.startswith(" ")]
        if not context or not all(line.startswith("  ") or line == " " for line in context):
            return False
        if all(line == " " for line in context):
            return False
        above = self._all[max(0, self._first - 60) : self._first]
        quote = self._quote or ""
        stats = [found for line in above if (found := _STAT.match(line.removeprefix(quote)))]
        return not stats or len(stats[-1]["indent"]) > 1


def _less_stuffed(line: str) -> str:
    return line[1:] if line.startswith("  ") else line


def _unstuffed(file: FileDiff) -> FileDiff:
    hunks = tuple(
        Hunk(h.head, h.old_start, tuple(_less_stuffed(line) for line in h.lines), h.whole) for h in file.hunks
    )
    return FileDiff(file.path, file.old_path, file.head, hunks)


def _names(head: Sequence[str]) -> tuple[str, str] | None:
    """The file's name before and after, without the first part of the path."""
    old = new = ""
    for line in head:
        if found := re.match(r"diff --git (\S+) (\S+)$", line):
            old, new = found[1], found[2]
        elif line.startswith("--- "):
            old = line[4:].split("\t")[0].strip()
        elif line.startswith("+++ "):
            new = line[4:].split("\t")[0].strip()
    if not old or not new:
        return None
    old = new if old == "/dev/null" else old
    new = old if new == "/dev/null" else new
    return old.partition("/")[2] or old, new.partition("/")[2] or new
