"""Messages as the agent frames them, written a second time so that reader and writer cannot err alike."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable

import pytest

Sender = Callable[..., list[str]]


def _frame(channel: str, message: int, index: int, count: int, payload: str) -> str:
    head = f"{channel} {message} {index}/{count} "
    return f"@mqlab {head}{zlib.crc32((head + payload).encode()):08x} {payload}"


def _sent(channel: str, message: int, value: object, copies: int = 1, chunk: int = 7) -> list[str]:
    text = json.dumps(value)
    chunks = [text[at : at + chunk] for at in range(0, len(text), chunk)]
    return [_frame(channel, message, i, len(chunks), c) for i, c in enumerate(chunks)] * copies


@pytest.fixture(scope="session")
def sent() -> Sender:
    """sent(channel, number, value, copies=1): the lines of a message."""
    return _sent
