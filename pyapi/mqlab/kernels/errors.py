"""What can go wrong with the code of a kernel, as opposed to the machine that builds it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mqlab.errors import MqlabError

__all__ = ["BuildFailedError"]


class BuildFailedError(MqlabError):
    """The kernel does not compile or link. `lines` are the first that say why, `log` is all of it."""

    kind: ClassVar[str] = "build"

    def __init__(self, what: str, lines: list[str], log: Path) -> None:
        said = "\n".join(f"    {line}" for line in lines) or "    (nothing)"
        super().__init__(f"{what} does not build; make said first:\n{said}", f"the whole log is {log}")
        self.lines = lines
        self.log = log
