#!/usr/bin/env python3
"""Checks the tracked files for what must never be committed, and for files that have grown past one concept.

The names of package mirrors are read from this machine's own configuration, so that none has to be written
here.
"""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_LINES = 400
SOURCE = {".py", ".cc", ".h", ".sh", ".cmake", ".c"}
BUILT = re.compile(r"\.(o|so|a|pyc|deb|ko|img|qcow2|whl)$|(^|/)(bzImage|vmlinu[xz])")
# Written with classes, so that this file does not match itself.
UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b|NotImplemented[E]rror")
CANNOT_FAIL = re.compile(r"\bassert Tru[e]\b|\b(CHECK|REQUIRE)\(tru[e]\)")
HOST = re.compile(r"https?://(?:[^/@\s]*@)?([\w.-]+)")


def tracked(root: Path) -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [Path(name) for name in listing.stdout.split("\0") if name]


def mirror_hosts() -> set[str]:
    """The hosts of the package mirrors that this machine is set up with."""
    hosts: set[str] = set()
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for file in sources:
        if file.is_file():
            hosts |= set(HOST.findall(file.read_text(errors="replace")))
    for file in [Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"]:
        config = configparser.ConfigParser(interpolation=None)
        config.read(file)
        for section in config.sections():
            hosts |= set(HOST.findall(" ".join(config[section].values())))
    return {host for host in hosts if "." in host}


def places_of_this_machine(root: Path) -> set[str]:
    """The home folder, the checkout and the folders that it lies in, each with a slash at its end."""
    folders = {Path.home(), root.resolve(), *root.resolve().parents}
    return {f"{folder}/" for folder in folders if len(folder.parts) > 2 or folder == Path.home()}


def file_findings(name: Path, text: str, hosts: set[str], places: set[str]) -> Iterator[str]:
    """What is wrong with one text file."""
    lines = text.splitlines()
    if name.suffix in {".py", ".cc", ".h"} and len(lines) > MOST_LINES:
        yield f"{name}: {len(lines)} lines; more than {MOST_LINES} are mostly two concepts"
    for number, line in enumerate(lines, start=1):
        where = f"{name}:{number}"
        if name.suffix in SOURCE and UNFINISHED.search(line):
            yield f"{where}: left unfinished: {line.strip()}"
        if name.suffix in SOURCE and CANNOT_FAIL.search(line):
            yield f"{where}: a check that cannot fail: {line.strip()}"
        if any(place in line for place in places):
            yield f"{where}: a path of this machine: {line.strip()}"
        if any(host in line for host in hosts):
            yield f"{where}: the name of a package mirror: {line.strip()}"


def findings(root: Path, names: list[Path], hosts: set[str], places: set[str]) -> Iterator[str]:
    """Everything that is wrong in the given files."""
    for name in names:
        if BUILT.search(name.as_posix()):
            yield f"{name}: a built or fetched file"
            continue
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        yield from file_findings(name, text, hosts, places)


def main() -> int:
    root = Path(__file__).parent.parent
    found = list(findings(root, tracked(root), mirror_hosts(), places_of_this_machine(root)))
    print(
        "\n".join(found) if found else "tree: nothing in it that must not be",
        file=sys.stderr if found else sys.stdout,
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
