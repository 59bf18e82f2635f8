"""What a start costs, and what the package shows."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import time

import mqlab


def test_import_and_list_are_fast() -> None:
    def best(*command: str) -> float:
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            taken.append(time.perf_counter() - start)
        return min(taken)

    empty = best("-c", "pass")
    assert best("-c", "import mqlab") - empty < 0.3
    assert best("-m", "mqlab", "list") < 0.5


def test_heavy_modules_are_left_alone_by_light_commands() -> None:
    program = """
import sys, mqlab
from mqlab.cli import main
try:
    main(["list"])
except SystemExit:
    pass
print(sorted({"numpy", "pandas", "matplotlib", "sqlalchemy", "mqlab._core"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_public_names_hide_no_module() -> None:
    modules = {m.name for m in pkgutil.iter_modules(mqlab.__path__)}
    assert not modules & set(mqlab.__all__)
    for name in mqlab.__all__:
        assert getattr(mqlab, name) is not None
