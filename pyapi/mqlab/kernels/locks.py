"""Locks on files, between processes; freed by the kernel when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

__all__ = ["lock_file", "try_lock"]


@contextmanager
def lock_file(
    path: Path, *, shared: bool = False, say: Callable[[str], None] | None = None, what: str = ""
) -> Iterator[int]:
    """Waits for the lock and gives its file descriptor; says so where another holds it."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with _locked(path, kind | fcntl.LOCK_NB) as file:
        if file is not None:
            yield file.fileno()
            return
    if say is not None:
        say(f"waiting: another process works on {what}")
    with _locked(path, kind) as file:
        assert file is not None
        yield file.fileno()


@contextmanager
def try_lock(path: Path) -> Iterator[int | None]:
    """The lock's file descriptor, or None where another holds it."""
    with _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB) as file:
        yield file.fileno() if file is not None else None


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[TextIOWrapper | None]:
    """None where it is not to wait and another holds it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            try:
                fcntl.flock(file, kind)
            except BlockingIOError:
                yield None
                return
            if _is_at(file, path):
                yield file
                return
        # Its folder was removed in the meantime: what was locked is nobody's any more.


def _is_at(file: TextIOWrapper, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
