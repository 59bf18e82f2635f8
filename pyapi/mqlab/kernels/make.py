"""The kernel's own make, run so that it can be watched, interrupted and killed without harm."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from mqlab.kernels.errors import BuildFailedError
from mqlab.kernels.tools import Compiler, build_environment
from mqlab.leash import on_leash

__all__ = ["compiled_file", "run_make"]

_COMPILED = re.compile(r"^  (?:CC|AS|HOSTCC|CC \[M\]|AS \[M\])\s+(\S+)")
_STEP = re.compile(r"^  [A-Z]+(?: \[M\])?\s+(\S+)")
_ERROR = re.compile(
    r"\berror:|undefined (?:reference|symbol)|\bfatal\b|No such file|No rule to make|multiple definition"
    r"|\*\*\* (?!\[)|cannot find|Error \d"
)
_MOST_LINES = 8
_END_LIMIT_S = 20.0
_NICENESS = 5


def compiled_file(line: str) -> str | None:
    """The object that a line of make's output says is being compiled."""
    found = _COMPILED.match(line)
    return found[1] if found else None


def run_make(
    tree: Path,
    targets: Sequence[str],
    *,
    what: str,
    log: Path,
    compiler: Compiler,
    jobs: int = 1,
    lock: int | None = None,
    on_step: Callable[[str, bool], None] | None = None,
) -> None:
    """Runs make in `tree`; BuildFailedError holds the first lines that say why it failed.

    `on_step` gets each file that is made, and whether that is a compilation. The file descriptor `lock` is
    handed to make, so that what it locks stays locked for as long as any compiler runs, even when this
    process is killed; where setpriv is installed, they are then told to end.
    """
    make = ["nice", "-n", str(_NICENESS), "make", f"-j{jobs}", f"CC={compiler.command}", *targets]
    command = on_leash(make, "TERM")
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"$ make {' '.join(targets)}\n")
        process = subprocess.Popen(
            command,
            cwd=tree,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=build_environment(),
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches us alone; make is ended below, and waited for
            pass_fds=(lock,) if lock is not None else (),
        )
        try:
            lines = _follow(process, file.write, on_step)
            status = process.wait()
        except BaseException:
            _end(process)
            raise
    if status != 0:
        raise BuildFailedError(what, _first_errors(lines), log)


def _follow(
    process: subprocess.Popen[str], write: Callable[[str], int], on_step: Callable[[str, bool], None] | None
) -> list[str]:
    """Copies the output to the log; what is neither a step nor blank is kept."""
    kept: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        write(line)
        if (found := _STEP.match(line)) is not None:
            if on_step is not None:
                on_step(found[1], _COMPILED.match(line) is not None)
        elif line.strip():
            kept.append(line.rstrip())
    return kept


def _end(process: subprocess.Popen[str]) -> None:
    """SIGINT first: make then removes what is half made."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_END_LIMIT_S)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _first_errors(lines: Sequence[str]) -> list[str]:
    """From the first line that names an error on; warnings before it are no cause."""
    for at, line in enumerate(lines):
        if _ERROR.search(line):
            return list(lines[at : at + _MOST_LINES])
    return list(lines[-_MOST_LINES:])
