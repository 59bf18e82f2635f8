"""Programs that must not outlive this process, even when it is killed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

__all__ = ["on_leash"]


def on_leash(command: Sequence[str], signal: str) -> list[str]:
    """`command` as one that gets `signal` ("TERM", "KILL") when the thread that starts it is gone.

    Where setpriv (util-linux) is not installed the command stays as it is.
    """
    leash = ["setpriv", "--pdeathsig", signal, "--"] if shutil.which("setpriv") else []
    return [*leash, *command]
