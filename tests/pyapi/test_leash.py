"""A program on the leash ends with the process that started it, even when that is killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqlab.leash import on_leash

PARENT = """
import subprocess, sys, time
from mqlab.leash import on_leash
child = subprocess.Popen(on_leash(["sleep", "600"], "KILL"))
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed")
def test_a_guest_does_not_outlive_a_killed_mqlab() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = Path("/proc", parent.stdout.readline().strip())
    try:
        for _ in range(600):  # until setpriv has become the program
            if (child / "comm").read_text().strip() == "sleep":
                break
            time.sleep(0.1)
        assert child.exists()
    finally:
        parent.kill()
        parent.communicate()
    for _ in range(600):
        if not child.exists() or (child / "stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"{child} still runs")


def test_without_setpriv_the_command_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert on_leash(["qemu", "-x"], "KILL") == ["qemu", "-x"]
