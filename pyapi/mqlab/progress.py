"""A progress bar on stderr: in a terminal, and in a notebook. None where nobody looks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mqlab.execution import Progress
from mqlab.telling import tell

__all__ = ["build_progress", "progress_bar", "run_progress"]

_LINE_EVERY_S = 30.0


@contextmanager
def progress_bar(wanted: Progress | bool, title: str) -> Iterator[Progress | None]:
    """What to call with each run that ended: the caller's own function, a bar, or None."""
    if not isinstance(wanted, bool):
        yield wanted
        return
    bar = _make_bar(title) if wanted and (_in_notebook() or sys.stderr.isatty()) else None
    if bar is None:
        yield None
        return

    def show(done: int, planned: int, what: str) -> None:
        bar.total = planned
        bar.set_postfix_str(what, refresh=False)
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        bar.close()


@contextmanager
def run_progress(title: str) -> Iterator[Progress]:
    """For runs that take long: a bar where somebody looks, otherwise a line on stderr for each."""

    def say(done: int, planned: int, what: str) -> None:
        tell(f"{title}: {done} of {planned}: {what}")

    with progress_bar(True, title) as shown:
        yield shown or say


@contextmanager
def build_progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """For what compiles: a bar where somebody looks, otherwise a line on stderr every half minute."""
    bar = _make_bar(title, unit="object") if _in_notebook() or sys.stderr.isatty() else None
    said = time.monotonic()

    def show(done: int, planned: int, what: str) -> None:
        nonlocal said
        if bar is not None:
            bar.total = planned
            bar.set_postfix_str(what[-40:], refresh=False)
            bar.update(done - bar.n)
        elif time.monotonic() - said >= _LINE_EVERY_S:
            said = time.monotonic()
            tell(f"{title}: {done} of about {planned} objects")

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()


def _make_bar(title: str, unit: str = "run") -> Any:
    if _in_notebook() and _has_widgets():
        from tqdm.notebook import tqdm as notebook_bar

        return notebook_bar(total=1, desc=title, unit=unit)
    from tqdm import tqdm

    size = os.get_terminal_size(sys.stderr.fileno()) if sys.stderr.isatty() else os.terminal_size((0, 0))
    # A terminal that does not know its size (a serial line, some wrappers) would get no bar at all.
    fitted: dict[str, Any] = (
        {"dynamic_ncols": True} if size.columns and size.lines else {"ncols": 79, "nrows": 24}
    )
    return tqdm(total=1, desc=title, unit=unit, file=sys.stderr, leave=False, **fitted)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    made = shell.get_ipython() if shell is not None else None
    return made is not None and made.__class__.__name__ == "ZMQInteractiveShell"


def _has_widgets() -> bool:
    from importlib.util import find_spec

    return find_spec("ipywidgets") is not None
