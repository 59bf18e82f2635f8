"""The order in which kernels were released."""

from __future__ import annotations

import re

__all__ = ["version_key"]

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:[-~+.]?rc(\d+))?")
_NO_CANDIDATE = 10**6  # a release comes after all of its candidates


def version_key(text: str) -> tuple[int, int, int, int, str]:
    """To sort by: 6.9 < 6.10-rc1 < 6.10 < 6.10.1, whatever stands around the numbers.

    What holds no version comes last, by its text.
    """
    found = _VERSION.search(text)
    if found is None:
        return (_NO_CANDIDATE, 0, 0, 0, text)
    major, minor, patch, candidate = (int(part) if part else None for part in found.groups())
    assert major is not None
    assert minor is not None
    return (major, minor, patch or 0, _NO_CANDIDATE if candidate is None else candidate, text)
