"""The exceptions of mqlab. The C++ engine raises these too.

Each says what was tried, on what, and what the system answered, and carries a remedy: what to do about it.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "InternalError",
    "MqlabError",
    "SystemCallError",
    "TimeoutError_",
    "UnsupportedError",
    "UsageError",
    "ViolationError",
]


class MqlabError(Exception):
    """What every error of mqlab is. `kind` is stable and machine readable."""

    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, remedy: str = "", os_errno: int = 0) -> None:
        super().__init__(message, remedy, os_errno)
        self.message = message
        self.remedy = remedy
        self.os_errno = os_errno

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class UsageError(MqlabError):
    """The caller asked for something that makes no sense."""

    kind = "usage"


class UnsupportedError(MqlabError):
    """The environment cannot do it."""

    kind = "unsupported"


class SystemCallError(MqlabError):
    """A system call failed; `os_errno` says how."""

    kind = "system"


class TimeoutError_(MqlabError):  # noqa: N801, N818 - not to be taken for the built-in one
    """Something did not answer within its limit."""

    kind = "timeout"


class InternalError(MqlabError):
    """mqlab broke its own rules."""

    kind = "internal"


class ViolationError(MqlabError):
    """The simulation found a bug in the code that it ran."""

    kind = "violation"
