"""The patches in a file: a thread in plain form, an mbox, a mail, or a bare patch.

A thread repeats its diffs in the answers, whole or cut. Of each diff one copy is kept, the least quoted
whole one, and they are numbered in the order in which they first appear.
"""

from __future__ import annotations

import contextlib
import email
import email.policy
import gzip
import mailbox
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mqlab.errors import UsageError
from mqlab.kernels.diffs import Diff, find_diffs

__all__ = ["Patch", "PatchFile", "PatchSelection", "parse_numbers", "read_patches"]

_FORMS = "give a thread in plain text, an mbox, a mail, or a patch as git format-patch and git diff write it"
_TAG = re.compile(r"\[[^\]]*\bPATCH\b(?P<rest>[^\]]*)\]\s*(?P<title>.*)", re.IGNORECASE)
_HEADING = re.compile(r"(?:(?:Re|Aw|Fwd?): *)*\[[^\]]*\bPATCH\b[^\]]*\] *\S", re.IGNORECASE)
_TEXTS = ("text/plain", "text/x-patch", "text/x-diff")
_HEADER = re.compile(r"(?:From|To|Subject|Date|Message-I[dD]|Received|Return-Path|MIME-Version): ")


@dataclass(frozen=True)
class Patch:
    """One change. `number` counts from 1 in its file; `id` is the same for every copy of it."""

    number: int
    id: str
    subject: str
    diff: Diff

    def files(self) -> list[str]:
        names = (name for file in self.diff.files for name in (file.old_path, file.path))
        return list(dict.fromkeys(names))

    def text(self) -> str:
        """For reading: what is in no known charset is replaced."""
        return self.data().decode(errors="replace")

    def data(self) -> bytes:
        """As patch(1) takes it."""
        return self.diff.text().encode(errors="surrogateescape")

    def title(self) -> str:
        """The subject without its tags, or the files where there is none."""
        found = _TAG.search(self.subject)
        return (found["title"] if found else self.subject) or ", ".join(self.files())

    def place(self) -> tuple[int, int] | None:
        """(version, position) of a subject like [PATCH v2 1/3]."""
        found = _TAG.search(self.subject)
        if found is None:
            return None
        version = re.search(r"\bv(\d+)\b", found["rest"])
        position = re.search(r"\b(\d+)/\d+", found["rest"])
        return int(version[1]) if version else 1, int(position[1]) if position else 1

    def is_answer(self) -> bool:
        return re.match(r"\s*(?:Re|Aw|Fwd?):", self.subject, re.IGNORECASE) is not None


@dataclass(frozen=True)
class PatchFile:
    """The distinct patches of a file. `cut` are those of which no copy is whole."""

    path: Path
    patches: tuple[Patch, ...]
    cut: tuple[Patch, ...]

    def chosen(self, numbers: Sequence[int] | None = None) -> list[Patch]:
        """The patches of these numbers, as given; without numbers those that were posted (see posted())."""
        if numbers is None:
            return self.posted()
        known = {patch.number: patch for patch in self.patches}
        missing = [n for n in numbers if n not in known]
        if missing:
            raise UsageError(
                f"{self.path.name} has no patch {missing[0]}: it holds {len(known)}", _listing(self.patches)
            )
        return [known[n] for n in numbers]

    def posted(self) -> list[Patch]:
        """The newest version of the series in its order; what was only suggested in an answer is left out.

        Where every diff stands in an answer, all are taken.
        """
        own = [patch for patch in self.patches if not patch.is_answer() and not patch.diff.quoted]
        places = [patch.place() for patch in own]
        tagged = [(place, patch) for place, patch in zip(places, own, strict=True) if place is not None]
        if not tagged:
            return list(own or self.patches)
        newest = max(place[0] for place, _ in tagged)
        return [p for _, p in sorted((item for item in tagged if item[0][0] == newest), key=lambda i: i[0])]


@dataclass(frozen=True)
class PatchSelection:
    """Patches to put on a kernel: a file and, where not all that it posts are wanted, their numbers in it."""

    file: Path
    numbers: tuple[int, ...] | None = None

    def patches(self) -> list[Patch]:
        return read_patches(self.file).chosen(self.numbers)


def parse_numbers(text: str) -> tuple[int, ...]:
    """`1-2,4` as (1, 2, 4)."""
    numbers: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise UsageError(f"{text!r} names no patches", "write their numbers, as in 1 or 1-2 or 1,3")
        numbers += range(int(found[1]), int(found[2] or found[1]) + 1)
    return tuple(numbers)


def read_patches(path: Path) -> PatchFile:
    """UsageError where the file cannot be read or holds no whole patch."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise UsageError(f"reading patches from {path} was answered with: {error}", _FORMS) from error
    found = [(subject, diff) for text in _messages(data) for subject, diff in _located(text)]
    patches, cut = _distinct(found)
    if not patches and cut:
        last = cut[-1].diff.files[-1]
        raise UsageError(
            f"every patch in {path} is cut: {last.path} ends within {last.hunks[-1].head}",
            "give the file with the original message",
        )
    if not patches:
        raise UsageError(f"{path} holds no patch", _FORMS)
    return PatchFile(path, tuple(patches), tuple(cut))


def _messages(data: bytes) -> Iterator[list[str]]:
    """The text of each message, decoded; a thread in plain form is one text."""
    if data.startswith(b"From ") and b"\nSubject:" in data:
        with tempfile.NamedTemporaryFile(suffix=".mbox") as file:
            file.write(data)
            file.flush()
            box = mailbox.mbox(file.name, create=False)
            yield from (_mail_lines(box.get_bytes(key)) for key in box.keys())  # noqa: SIM118
            box.close()
    elif _HEADER.match(data[:200].decode(errors="replace")):
        yield _mail_lines(data)
    else:
        yield _split(_decoded(data))


def _mail_lines(data: bytes) -> list[str]:
    """A mail as plain text with its subject as a header line in front."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    lines = [f"Subject: {' '.join(str(message.get('Subject', '')).split())}", ""]
    for part in message.walk():
        if part.get_content_type() in _TEXTS:
            lines += _split(_decoded(part.get_payload(decode=True), part.get_content_charset()))
    return lines


def _decoded(data: Any, charset: str | None = None) -> str:
    """Text of which Patch.data() gives the bytes back, also where they are in no known charset."""
    if charset not in (None, "us-ascii", "utf-8"):
        with contextlib.suppress(LookupError, UnicodeDecodeError):
            return bytes(data).decode(charset)
    return bytes(data).decode(errors="surrogateescape")


def _split(text: str) -> list[str]:
    """Lines, ended as mails end them; splitlines() would also break at a form feed inside a line of code."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _located(lines: Sequence[str]) -> Iterator[tuple[str, Diff]]:
    """Each diff with the subject of the message that it stands in."""
    headings = list(_headings(lines))
    for diff in find_diffs(lines):
        above = [subject for at, subject in headings if at < diff.first_line]
        yield above[-1] if above else "", diff


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Where messages begin: a Subject header, or a line of its own that is a subject."""
    for at, line in enumerate(lines):
        if line.startswith("Subject: "):
            folded = [line[len("Subject: ") :]]
            for more in lines[at + 1 :]:
                if not more[:1].isspace() or not more.strip():
                    break
                folded.append(more)
            yield at, " ".join(" ".join(folded).split())
        elif _HEADING.match(line) and (at == 0 or not lines[at - 1].strip()):
            yield at, line.strip()


def _distinct(found: Sequence[tuple[str, Diff]]) -> tuple[list[Patch], list[Patch]]:
    """The best copy of each diff, numbered; and those that are only there in part."""
    best: dict[str, Patch] = {}
    for subject, diff in found:
        if not diff.whole():
            continue
        patch = Patch(0, diff.identity(), subject, diff)
        known = best.get(patch.id)
        if known is None or diff.quoted < known.diff.quoted:
            best[patch.id] = patch
    whole = [replace(patch, number=n) for n, patch in enumerate(best.values(), start=1)]
    cut = [
        Patch(0, diff.identity(), subject, diff)
        for subject, diff in found
        if not diff.whole() and not any(diff.is_part_of(patch.diff) for patch in whole)
    ]
    return whole, cut


def _listing(patches: Sequence[Patch]) -> str:
    return "; ".join(f"{patch.number}: {patch.title()}" for patch in patches)
