"""A static busybox for a guest's prompt: this machine's own, or the package, fetched and not installed."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.kernels.cache import cache_root

__all__ = ["find_busybox"]

_NAMES = ("busybox", "busybox-static")
_PACKAGE = "busybox-static"
_REMEDY = "install a static busybox (on Debian and Ubuntu: apt-get install busybox-static)"
_LIMIT_S = 300
_ELF = b"\x7fELF\x02\x01"
_PT_INTERP = 3


def _is_static(path: Path) -> bool:
    """Whether a 64-bit ELF program asks for no loader: a guest has none."""
    try:
        head = path.read_bytes()[:4096]
        if head[: len(_ELF)] != _ELF:
            return False
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        kinds = [struct.unpack_from("<I", head, offset + i * size)[0] for i in range(count)]
    except (OSError, struct.error):
        return False
    return _PT_INTERP not in kinds


def _fetch(kept: Path, say: Callable[[str], None]) -> Path:
    say(f"fetching {_PACKAGE} for the guest's prompt (once; nothing is installed)")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        for command in (["apt-get", "-qq", "download", _PACKAGE], ["dpkg", "-x"]):
            packages = [str(path) for path in Path(folder).glob("*.deb")]
            words = [*command, *packages, folder] if command[0] == "dpkg" else command
            # As root apt drops its rights to a user who cannot write here; it says so and goes on as root.
            subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=_LIMIT_S)
        found = next(path for path in Path(folder).rglob("busybox") if _is_static(path))
        shutil.copy2(found, kept)
    return kept


def find_busybox(say: Callable[[str], None] = lambda _line: None) -> Path:
    """The program; UnsupportedError where there is none and none can be had."""
    on_path = [Path(found) for name in _NAMES if (found := shutil.which(name))]
    kept = cache_root() / "busybox"
    for path in (*on_path, kept):
        if _is_static(path):
            return path
    try:
        return _fetch(kept, say)
    except (OSError, StopIteration, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or error
        raise UnsupportedError(
            f"there is no static busybox, and fetching {_PACKAGE} was answered with: {str(said).strip()}",
            _REMEDY,
        ) from error
