"""What a kernel says when it is broken, found in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Trouble", "find_troubles"]

# The first that matches a line gives the report its kind.
_KINDS = (
    (
        "stall",
        r"watchdog: BUG: soft lockup|BUG: workqueue lockup|NMI watchdog: Watchdog detected hard LOCKUP",
    ),
    ("stall", r"INFO: \S+ (?:self-)?detected (?:expedited )?stalls?\b"),
    ("KASAN", r"BUG: K[A-Z]SAN: |KASAN: |\bBUG: KFENCE: "),
    ("panic", r"Kernel panic - not syncing"),
    ("hung task", r"INFO: task .* blocked.* for more than \d+ seconds"),
    (
        "lockdep",
        r"WARNING: (?:possible |inconsistent lock|suspicious RCU|bad (?:unlock balance|contention)"
        r"|held lock freed|lock held when returning|Nested lock was not taken|chain_key collision"
        r"|.* still has locks held|\S+-safe -> \S+-unsafe lock order)"
        r"|BUG: Invalid wait context|BUG: MAX_(?:LOCK|STACK)\S+ too low"
        r"|DEBUG_LOCKS_WARN_ON|suspicious RCU usage",
    ),
    ("debug objects", r"ODEBUG: (?!selftest passed)"),
    (
        "oops",
        r"\bOops(?:: | - )|\bkernel BUG at |\bBUG: |general protection fault"
        r"|unable to handle (?:kernel|page)",
    ),
    (
        "oops",
        r"refcount_t: .*(?:use-after-free|underflow|leaking|saturated)|list_(?:add|del) corruption|UBSAN: ",
    ),
    ("warning", r"WARNING: CPU: \d+ PID: \d+ at |WARNING: .*\bCPU#\d+: "),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
_INIT_STARTS = re.compile(r"Run /init as init process")
_LINES = 60


@dataclass(frozen=True)
class Trouble:
    """A report: of which kind, and its lines."""

    kind: str
    text: str


def _kind_of(line: str) -> str | None:
    return next((kind for kind, pattern in _PATTERNS if pattern.search(line)), None)


def find_troubles(text: str) -> list[Trouble]:
    """Every report in a log, in order, each with the lines that follow it.

    A plain warning from before the guest's init is the machine's affair (firmware, emulated hardware), not
    the workload's, and is left out.
    """
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines) if _INIT_STARTS.search(line)), -1)
    found: list[Trouble] = []
    for number, line in enumerate(lines):
        kind = _kind_of(line)
        if kind is not None and not (kind == "warning" and number < begin):
            found.append(Trouble(kind, "\n".join(lines[number : number + _LINES])))
    return found
