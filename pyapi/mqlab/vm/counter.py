"""The plugin of QEMU that counts what a guest executes: whether it can be used here, how it is started."""

from __future__ import annotations

import importlib.resources
import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.vm.initramfs import agent_path
from mqlab.vm.qemu import Qemu

__all__ = ["Counter", "find_counter"]

_LIMIT_S = 60


@dataclass(frozen=True)
class Counter:
    """The plugin, and the marks of the agent that it looks at."""

    plugin: Path
    marks: tuple[tuple[str, str], ...]

    def options(self, out: Path) -> list[str]:
        """Of QEMU; `out` gets the counts when it ends."""
        words = [str(self.plugin), f"out={out}", *(f"{name}={address}" for name, address in self.marks)]
        return ["-plugin", ",".join(word.replace(",", ",,") for word in words)]


def _plugin_path() -> Path:
    path = Path(str(importlib.resources.files("mqlab") / "bin" / "mqlab-count.so"))
    if not path.is_file():
        raise UnsupportedError(
            f"the plugin that counts instructions is not at {path}",
            "install mqlab from a build that made it (make setup)",
        )
    return path


def _marks() -> tuple[tuple[str, str], ...]:
    answer = subprocess.run(
        [str(agent_path()), "marks"], check=True, capture_output=True, text=True, timeout=_LIMIT_S
    )
    marks: dict[str, str] = json.loads(answer.stdout)
    return tuple(sorted(marks.items()))


@cache
def find_counter(qemu: Qemu) -> Counter:
    """The plugin, tried with this QEMU on a machine that never runs; UnsupportedError says why not."""
    try:
        counter = Counter(_plugin_path(), _marks())
        machine = (
            "-machine",
            "none",
            "-accel",
            "tcg",
            "-nodefaults",
            "-display",
            "none",
            "-monitor",
            "stdio",
        )
        done = subprocess.run(
            [str(qemu.program), *machine, *counter.options(Path("/dev/null"))],
            input="quit\n",
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UnsupportedError(
            f"trying the plugin that counts instructions was answered with: {error}", "report it"
        ) from error
    if done.returncode != 0:
        raise UnsupportedError(
            f"QEMU {qemu.version} does not take the plugin that counts instructions: {done.stderr.strip()}",
            "install a QEMU that was built with TCG plugins; all else works without",
        )
    return counter
