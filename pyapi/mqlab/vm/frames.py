"""Reads the framed messages of mqlab-agent out of a guest's console; core/agent/frames.h describes them."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Console", "parse_console"]

_FRAME = re.compile(
    r"@mqlab (?P<head>(?P<channel>[a-z]+) (?P<message>\d+) (?P<index>\d+)/(?P<count>\d+) )"
    r"(?P<crc>[0-9a-f]{8}) (?P<payload>.*)$"
)


@dataclass(frozen=True)
class Console:
    """What came over the line: whole messages in order, those that never arrived whole, other text."""

    messages: tuple[tuple[str, Any], ...]
    damaged: tuple[str, ...]
    text: str

    def last(self, channel: str) -> Any | None:
        """The last message of a channel, or None."""
        return next((value for name, value in reversed(self.messages) if name == channel), None)


@dataclass
class _Message:
    channel: str
    count: int
    chunks: dict[int, str] = field(default_factory=dict)

    def whole(self) -> Any | None:
        if len(self.chunks) != self.count:
            return None
        return json.loads("".join(self.chunks[index] for index in range(self.count)))


def _good_frame(line: str) -> re.Match[str] | None:
    found = _FRAME.search(line)
    if found is None:
        return None
    crc = zlib.crc32((found["head"] + found["payload"]).encode())
    return found if crc == int(found["crc"], 16) else None


def parse_console(raw: bytes) -> Console:
    """Never fails: a line that is no whole frame is text."""
    text: list[str] = []
    messages: dict[int, _Message] = {}
    for line in raw.decode("utf-8", "replace").replace("\r", "").split("\n"):
        found = _good_frame(line)
        if found is None:
            text.append(line)
            continue
        if found.start() > 0:
            text.append(line[: found.start()])
        message = messages.setdefault(int(found["message"]), _Message(found["channel"], int(found["count"])))
        message.chunks[int(found["index"])] = found["payload"]
    whole = [(message.channel, message.whole()) for _, message in sorted(messages.items())]
    return Console(
        messages=tuple((channel, value) for channel, value in whole if value is not None),
        damaged=tuple(channel for channel, value in whole if value is None),
        text="\n".join(text),
    )
