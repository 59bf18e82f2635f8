"""Text that survives as part of a commit message: two spaces in front, ASCII, at most 75 columns.

`git am` cuts a message at lines such as "---" or "diff -", `git commit` drops lines that begin with "#",
and both drop spaces at the end and blank lines in a row. Nothing here has any of these, so it comes out as
it went in.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from mqlab.units import format_number

__all__ = [
    "INDENT",
    "WIDTH",
    "ascii_text",
    "columns",
    "finish",
    "number",
    "paragraph",
    "percent",
    "two_sided",
]

WIDTH: Final = 75
INDENT: Final = "  "
_ASCII: Final = str.maketrans(
    {
        "\u00b5": "u",
        "\u03bc": "u",
        "\u2192": "->",
        "\u2013": "-",
        "\u2014": "-",
        "\u00d7": "x",
        "\u2026": "...",
    }
)


def ascii_text(text: str) -> str:
    """`text` in ASCII, on one line."""
    flat = " ".join(text.translate(_ASCII).split())
    return flat.encode("ascii", "replace").decode("ascii")


def paragraph(text: str, indent: int = 2, hanging: int = 0) -> list[str]:
    """`text` wrapped to the width."""
    first = " " * indent
    return textwrap.wrap(
        ascii_text(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=first + " " * hanging,
        break_on_hyphens=False,
    ) or [""]


def columns(label: str, cells: Sequence[str], widths: Sequence[int], indent: int = 4) -> list[str]:
    """A label and right-aligned cells. A label that is too long stands on a line of its own."""
    right = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    room = WIDTH - indent - sum(widths)
    label = ascii_text(label)
    if len(label) <= room:
        return [" " * indent + label.ljust(room) + right]
    return [*paragraph(label, indent, 2), " " * (indent + room) + right]


def two_sided(left: str, right: str, indent: int = 2) -> list[str]:
    """`left` at the left and `right` at the right edge, on two lines where one is too short."""
    left, right = ascii_text(left), ascii_text(right)
    gap = WIDTH - indent - len(left) - len(right)
    if gap >= 2:
        return [" " * indent + left + " " * gap + right]
    return [*paragraph(left, indent, 2), right.rjust(WIDTH)]


def number(value: float | None, digits: int = 4) -> str:
    """A number for a cell; a dash where there is none."""
    return "-" if value is None else format_number(value, digits)


def ratio(value: float | None) -> str:
    """A ratio for a cell, with more digits near 1, where small effects are."""
    return f"{value:.4f}" if value is not None and 0.9 < value < 1.1 else number(value, 3)


def percent(share: float | None) -> str:
    """A share in per cent for a cell; a dash where there is none."""
    if share is None:
        return "-"
    return f"{share * 100:.1f} %" if share < 10 else f"{share * 100:.0f} %"


def finish(lines: Iterable[str]) -> str:
    """The text from its lines: no blank line doubled or at an end, no space at an end of a line."""
    kept: list[str] = []
    for line in lines:
        line = line.rstrip()
        if line or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return "\n".join(kept) + "\n"
