#!/usr/bin/env python3
"""Checks that the committed _core.pyi says what the built extension offers; --write brings it up to date."""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

COMMITTED = Path(__file__).parent.parent / "pyapi" / "mqlab" / "_core.pyi"


def fresh_stub() -> str:
    """The stub of the extension that `import mqlab` finds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pybind11_stubgen", "mqlab._core", "--exit-code", "-o", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (Path(folder) / "mqlab" / "_core.pyi").read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the fresh stub over the committed one")
    fresh = fresh_stub()
    if parser.parse_args().write:
        COMMITTED.write_text(fresh)
        return 0
    committed = COMMITTED.read_text()
    if committed == fresh:
        print("stubs: _core.pyi is up to date")
        return 0
    lines = difflib.unified_diff(
        committed.splitlines(), fresh.splitlines(), "committed", "built", lineterm=""
    )
    print("\n".join(lines), file=sys.stderr)
    print("_core.pyi does not match the extension; run: make stubs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
