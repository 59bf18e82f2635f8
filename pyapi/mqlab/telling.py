"""What long work says meanwhile, on stderr: stdout belongs to the answer."""

from __future__ import annotations

import sys

__all__ = ["tell"]


def tell(line: str) -> None:
    """One line, with the name of the program that says it."""
    print(f"mqlab: {line}", file=sys.stderr, flush=True)
