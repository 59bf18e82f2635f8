#!/usr/bin/env python3
"""Runs clang-tidy over the C++ code, a file at a time, and remembers what was clean.

A file is looked at again when its text, the text of a header of ours that it includes (directly or not),
the list of checks, the compile command or clang-tidy itself has changed. So `make check` takes seconds
after a small edit, and gives the same answer as a run over everything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = ("core", "pyapi/bindings", "tests/core", "bench")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
DIAGNOSTIC = re.compile(r"^(\S+):\d+:\d+: (error|warning): .*\[", re.MULTILINE)


def closure(file: Path, seen: set[Path]) -> set[Path]:
    """The file and every header of ours that it includes."""
    if file in seen:
        return seen
    seen.add(file)
    for name in INCLUDE.findall(file.read_text()):
        beside, rooted = file.parent / name, ROOT / "core" / name
        for candidate in (beside, rooted):
            if candidate.is_file():
                closure(candidate.resolve(), seen)
                break
    return seen


def key_of(file: Path, command: str, version: str) -> str:
    """A hash of all that decides what clang-tidy says about the file."""
    digest = hashlib.sha256((version + command + (ROOT / ".clang-tidy").read_text()).encode())
    for part in sorted(closure(file, set())):
        digest.update(part.as_posix().encode() + part.read_bytes())
    return digest.hexdigest()


def readable(text: str) -> str:
    """Without the build tree's include roots and the count of suppressed warnings."""
    text = re.sub(r"(?m)^\S*/include/[a-z]+/([a-z]+)/", r"core/\1/", text)
    text = text.replace(f"{ROOT}/", "")
    return re.sub(
        r"(?m)^(\d+ (warnings?|errors?) (treated|generated).*|Suppressed .*|Use -header-filter.*)\n", "", text
    )


def look_at(file: Path, build: Path) -> str:
    """What clang-tidy says about the file; empty when it is clean."""
    command = ["clang-tidy", "--quiet", f"-p={build}", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return readable(done.stdout) or done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build tree with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()

    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    entries = json.loads((options.build / "compile_commands.json").read_text())
    commands = {Path(entry["file"]).resolve(): entry["command"] for entry in entries}
    ours = sorted(file for file in commands if file.relative_to(ROOT).as_posix().startswith(OURS))
    clean = options.build / "tidy-clean"
    clean.mkdir(exist_ok=True)
    keys = {file: key_of(file, commands[file], version) for file in ours}
    stale = [file for file in ours if not (clean / keys[file]).exists()]
    print(f"tidy: {len(ours)} files, {len(stale)} to look at", flush=True)

    said: set[str] = set()
    with ThreadPoolExecutor(options.jobs) as pool:
        for file, text in zip(stale, pool.map(lambda f: look_at(f, options.build), stale), strict=True):
            if not text:
                (clean / keys[file]).touch()
            elif text not in said:
                print(text, file=sys.stderr)
            said.add(text)
    return 1 if said - {""} else 0


if __name__ == "__main__":
    sys.exit(main())
