"""Archives in cpio's newc form, as the kernel unpacks them into its first root.

The same entries give the same bytes: no time, owner or inode of the host goes in.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass

__all__ = ["Entry", "archive", "device", "directory", "file", "link"]

_ALIGNMENT = 4


@dataclass(frozen=True)
class Entry:
    """One name in an archive."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def file(name: str, content: bytes, *, executable: bool = False) -> Entry:
    return Entry(name, stat.S_IFREG | (0o755 if executable else 0o644), content)


def link(name: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def device(name: str, major: int, minor: int) -> Entry:
    """A character device."""
    return Entry(name, stat.S_IFCHR | 0o600, b"", (major, minor))


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGNMENT)


def _record(entry: Entry, inode: int) -> bytes:
    name = entry.name.encode() + b"\0"
    fields = (
        inode,
        entry.mode,
        0,  # uid
        0,  # gid
        2 if stat.S_ISDIR(entry.mode) else 1,  # links
        0,  # time
        len(entry.content),
        0,  # major and minor of the device that the archive was made on
        0,
        *entry.device,
        len(name),
        0,  # no checksum in this form
    )
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    return head + _padding(len(head)) + entry.content + _padding(len(entry.content))


def archive(entries: list[Entry]) -> bytes:
    """The archive of the entries, in their order. A folder must come before what is in it."""
    records = [_record(entry, inode) for inode, entry in enumerate(entries, start=1)]
    return b"".join([*records, _record(Entry("TRAILER!!!", 0), 0)])
