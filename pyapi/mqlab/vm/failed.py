"""Keeps what a guest that failed had said, so that its whole kernel log can be read afterwards."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mqlab.kernels.cache import cache_root

__all__ = ["keep_log"]

_KEPT = 20


def keep_log(text: str) -> Path | None:
    """The file that holds it now, among the newest of its kind; None where none can be written."""
    folder = cache_root() / "failed-guests"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="guest-", suffix=".log", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        for old in sorted(folder.glob("guest-*.log"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return Path(name)
