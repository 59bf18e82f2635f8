"""Which kernel code a series touches, and which experiments exercise that code.

An experiment declares its code as patterns: `block/genhd.c`, or `block/blk-mq.c:blk_mq_free_*,blk_mq_exit_*`
where only some functions of a file are meant. `*` stands for any characters, in paths also for slashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mqlab.discovery import find_experiment, find_experiments
from mqlab.kernels.diffs import FileDiff, Hunk
from mqlab.kernels.patch_file import Patch
from mqlab.model import Experiment

__all__ = ["Change", "Pick", "changes_of", "pick_experiments", "pick_for"]

_HEADING = re.compile(r"@@ [^@]* @@ ?(.*)$")
# A definition as the kernel writes it: at the line's start, no statement, no call that ends there.
_DEFINITION = re.compile(
    r"(?!(?:if|for|while|switch|return|else|case|goto|do|sizeof)\b)[A-Za-z_][^=;]*?\b(\w+)\("
)
_NO_FUNCTION = re.compile(r"(?:EXPORT_\w+|MODULE_\w+|DEFINE_\w+|DECLARE_\w+|module_\w+|late_\w+)$")


UNKNOWN = "?"


@dataclass(frozen=True, order=True)
class Change:
    """A place that a patch changes.

    `function` is empty for what stands in none, as a struct, and UNKNOWN where the diff does not tell.
    """

    path: str
    function: str

    def text(self) -> str:
        return f"{self.function}() in {self.path}" if self.function not in ("", UNKNOWN) else self.path


@dataclass(frozen=True)
class Pick:
    """An experiment to run, and the changes that it exercises; none where it was picked for want of any."""

    experiment: Experiment
    why: tuple[Change, ...]
    asked_for: bool = False

    def reason(self) -> str:
        if self.asked_for and not self.why:
            return "asked for; it declares nothing that the series touches"
        if not self.why:
            return "no experiment declares what the series touches, so all are run"
        named = [change.text() for change in self.why[:3]]
        more = len(self.why) - len(named)
        return "the series touches " + ", ".join(named) + (f" and {more} more places" if more else "")


def changes_of(patches: Iterable[Patch]) -> list[Change]:
    """Every function and file that a series changes, sorted, each once."""
    found = {change for patch in patches for file in patch.diff.files for change in _changes(file)}
    return sorted(found)


def _changes(file: FileDiff) -> Iterator[Change]:
    if not file.hunks:  # renamed, or only its mode
        yield Change(file.path, "")
    # git names the function wherever there is one above.
    unnamed = "" if file.head[0].startswith("diff --git ") else UNKNOWN
    for hunk in file.hunks:
        for function in _functions(hunk, unnamed):
            yield Change(file.path, function)


def _functions(hunk: Hunk, unnamed: str) -> Iterator[str]:
    """Where the changed lines stand, by the hunk's heading and the definitions inside of it."""
    heading = _HEADING.match(hunk.head)
    function = _defined(heading[1]) if heading and heading[1] else unnamed
    for line in hunk.lines:
        mark, code = line[:1], line[1:]
        if code.startswith("}"):
            if mark in "+-":
                yield function
            function = ""
        elif name := _defined(code):
            function = name
        if mark in "+-" and code.strip():
            yield function


def _defined(code: str) -> str:
    found = _DEFINITION.match(code)
    if found is None or code.rstrip().endswith(";") or _NO_FUNCTION.match(found[1]):
        return ""
    return found[1]


def pick_experiments(changes: Sequence[Change], experiments: Sequence[Experiment]) -> list[Pick]:
    """Those that declare any of the changed code; all where none does."""
    picks = [
        Pick(experiment, tuple(c for c in changes if _exercises(experiment, c))) for experiment in experiments
    ]
    known = [pick for pick in picks if pick.why]
    return known or picks


def pick_for(patches: Sequence[Patch], wanted: Sequence[str] | None) -> list[Pick]:
    """The experiments of these ids, else those whose code the patches change."""
    changes = changes_of(patches)
    if not wanted:
        return pick_experiments(changes, find_experiments())
    chosen = [find_experiment(id_) for id_ in wanted]
    return [Pick(e, tuple(c for c in changes if _exercises(e, c)), asked_for=True) for e in chosen]


def _exercises(experiment: Experiment, change: Change) -> bool:
    return any(_matches(pattern, change) for pattern in experiment.code)


def _matches(pattern: str, change: Change) -> bool:
    path, _, functions = pattern.partition(":")
    if not fnmatchcase(change.path, path):
        return False
    if not functions or change.function == UNKNOWN:
        return True
    return any(fnmatchcase(change.function, name.strip()) for name in functions.split(","))
