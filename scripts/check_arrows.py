#!/usr/bin/env python3
"""Checks that every #include in the C++ code follows the arrows of the house.

The arrows are what core/<folder>/CMakeLists.txt says in its `mqlab_folder(NAME LINKS ...)`; the build
enforces them too, since a folder's headers are reachable only through its target. This check also catches
what the compiler would let through: paths that climb out of a folder, headers of an unlinked folder that
come in by another's angle brackets, and a cycle among the folders themselves.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = re.compile(r"mqlab_folder\(\s*(\w+)([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cc"}


def direct_links(root: Path) -> dict[str, list[str]]:
    """The folders that each folder links, as its CMakeLists.txt says."""
    links: dict[str, list[str]] = {}
    for file in sorted((root / "core").glob("*/CMakeLists.txt")):
        found = FOLDER.search(file.read_text())
        if found is None:
            raise SystemExit(f"{file}: no mqlab_folder(...) in it")
        name, rest = found.groups()
        words = rest.split()
        after = words[words.index("LINKS") + 1 :] if "LINKS" in words else []
        links[name] = after[: after.index("LIBRARIES")] if "LIBRARIES" in after else after
    return links


def reachable(links: dict[str, list[str]], folder: str, above: tuple[str, ...] = ()) -> set[str]:
    """The folder and all that it may include; ends the program on a cycle."""
    if folder in above:
        raise SystemExit("the folders link each other in a circle: " + " -> ".join((*above, folder)))
    allowed = {folder}
    for linked in links[folder]:
        allowed |= reachable(links, linked, (*above, folder))
    return allowed


def owner_of(relative: Path, folders: set[str]) -> set[str] | None:
    """Of which folders a file may include what they may; None when the arrows do not concern it."""
    match relative.parts:
        case ("core", folder, *_) if folder in folders:
            return {folder}
        case ("tests", "core", folder, *_) if folder in folders:
            return {folder}
        case ("pyapi", "bindings", *_) | ("bench", *_):
            return folders
        case _:
            return None


def violations(root: Path) -> Iterator[str]:
    """One line an include that goes against an arrow."""
    links = direct_links(root)
    allowed_of = {folder: reachable(links, folder) for folder in links}
    for top in ("core", "pyapi/bindings", "tests/core", "bench"):
        for file in sorted((root / top).rglob("*")):
            relative = file.relative_to(root)
            owners = owner_of(relative, set(links))
            if file.suffix not in SUFFIXES or owners is None:
                continue
            allowed = set().union(*(allowed_of[owner] for owner in owners))
            yield from file_violations(file, relative, allowed, set(links))


def file_violations(file: Path, relative: Path, allowed: set[str], folders: set[str]) -> Iterator[str]:
    """The wrong includes of one file."""
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        found = INCLUDE.match(line)
        if found is None:
            continue
        quote, target = found.groups()
        parts = Path(target).parts
        where = f"{relative}:{number}: #include {target}"
        if ".." in parts:
            yield f"{where}: climbs out of its folder; write folder/file.h"
        elif parts[0] in folders and len(parts) > 1 and parts[0] not in allowed:
            yield f"{where}: against the arrows; may include only {', '.join(sorted(allowed))}"
        elif parts[0] in folders and len(parts) > 1 and quote == "<":
            yield f"{where}: our own header; include it with quotes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    found = list(violations(parser.parse_args().root))
    print(
        "\n".join(found) if found else "arrows: every include follows them",
        file=sys.stderr if found else sys.stdout,
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
