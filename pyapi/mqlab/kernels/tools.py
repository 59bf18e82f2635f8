"""What a kernel is compiled with: the tools that must be there, and the compiler as it names itself."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from mqlab.errors import UnsupportedError
from mqlab.kernels.apt import OTHER_SOURCES

__all__ = ["Compiler", "build_environment", "find_compiler", "job_count", "require_tools"]

# (program, the package of Debian and Ubuntu that brings it)
_PROGRAMS = (
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("perl", "perl"),
)
_HEADERS = (("gelf.h", "libelf-dev"), ("openssl/opensslv.h", "libssl-dev"))
_LIMIT_S = 20.0


@dataclass(frozen=True)
class Compiler:
    """`command` is what make gets as CC, with ccache where that is installed; `version` is its first line."""

    command: str
    version: str


def find_compiler() -> Compiler:
    """$CC, by default gcc."""
    command = os.environ.get("CC") or "gcc"
    words = shlex.split(command)
    try:
        done = subprocess.run(
            [*words, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnsupportedError(
            f"asking the compiler {command} for its version was answered with: {error}",
            "apt-get install gcc, or name another one in CC",
        ) from error
    if words[0] != "ccache" and shutil.which("ccache"):
        command = f"ccache {command}"
    return Compiler(command, done.stdout.splitlines()[0])


@cache
def _has_header(name: str) -> bool:
    done = subprocess.run(
        ["gcc", "-E", "-xc", "-", "-o", os.devnull],
        input=f"#include <{name}>\n".encode(),
        capture_output=True,
        timeout=_LIMIT_S,
    )
    return done.returncode == 0


def _missing() -> list[tuple[str, str]]:
    missing = [(name, package) for name, package in _PROGRAMS if shutil.which(name) is None]
    if not any(name == "gcc" for name, _ in missing):
        missing += [(name, package) for name, package in _HEADERS if not _has_header(name)]
    return missing


def require_tools() -> None:
    """UnsupportedError names everything that is missing and how to install it."""
    if platform.machine() != "x86_64":
        raise UnsupportedError(
            f"kernels are built for x86-64 only, and this machine is {platform.machine()}", OTHER_SOURCES
        )
    missing = _missing()
    if missing:
        raise UnsupportedError(
            "building a kernel needs what is not installed here: " + ", ".join(name for name, _ in missing),
            "apt-get install " + " ".join(package for _, package in missing),
        )


def job_count() -> int:
    """Compilers at a time: as many as this process may use CPUs."""
    return len(os.sched_getaffinity(0))


def build_environment() -> dict[str, str]:
    """The environment of make: nothing of the day, the host or the user goes into an image."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    return {
        **kept,
        "LC_ALL": "C",
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
        "KBUILD_BUILD_USER": "mqlab",
        "KBUILD_BUILD_HOST": "mqlab",
        "KBUILD_BUILD_VERSION": "1",
    }


# A make above us hands these down; they would tell the kernel's make what was meant for that one.
_UNWANTED = frozenset(
    {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "KBUILD_OUTPUT", "ARCH", "CROSS_COMPILE", "CC"}
    | {"CFLAGS", "LDFLAGS", "LOCALVERSION", "KCFLAGS", "KCONFIG_CONFIG", "KCONFIG_ALLCONFIG", "O"}
)
