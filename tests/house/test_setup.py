"""make setup on machines other than this one, with apt, id and the compiler played by small scripts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# What apt offers on releases that mqlab is for, of the packages whose names differ between them.
BOOKWORM = {
    "python3": "3.11.2-1+b1",
    "libboost-context1.81-dev": "1.81.0",
    "libboost-context-dev": "1.74.0",
}
TRIXIE = {"python3": "3.13.5-1", "libboost-context1.83-dev": "1.83.0", "libboost-context-dev": "1.83.0.2"}
JAMMY = {"python3": "3.10.6-1~22.04", "python3.11": "3.11.0~rc1-1~22.04", "libboost-context-dev": "1.74.0"}
NOBLE = {
    "python3": "3.12.3-0",
    "libboost-context1.83-dev": "1.83.0",
    "libboost-context-dev": "1.83.0.1",
}

PRELUDE = 'set -euo pipefail; say() { echo "setup: $*" >&2; }; die() { echo "error: $*" >&2; exit 4; };'
TOOLS = ["bash", "cat", "cut", "env", "head", "paste", "sed", "sort"]


class Machine:
    """A PATH on which some commands are played."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.root = root
        for tool in TOOLS:
            found = shutil.which(tool, path="/usr/bin:/bin")
            if found is not None:
                (self.bin / tool).symlink_to(found)

    def play(self, command: str, body: str) -> None:
        path = self.bin / command
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def offer(self, packages: dict[str, str]) -> None:
        cases = "\n".join(f"{name}) echo '  Candidate: {version}';;" for name, version in packages.items())
        self.play("apt-cache", f'case "$2" in\n{cases}\n*) echo "  Candidate: (none)";; esac')
        self.play("dpkg-query", "exit 1")

    def bash(self, commands: str, **variables: str) -> subprocess.CompletedProcess[str]:
        prelude = (
            'set -euo pipefail\nsay() { echo "setup: $*" >&2; }\ndie() { echo "error: $*" >&2; exit 4; }\n'
        )
        text = f"{prelude}source scripts/system_packages.sh\n{commands}"
        environment = {"PATH": str(self.bin), **variables}
        return subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path, root: Path) -> Machine:
    return Machine(tmp_path, root)


@pytest.mark.parametrize(
    ("offered", "python", "boost"),
    [
        (BOOKWORM, "python3 python3-dev python3-venv", "libboost-context1.81-dev"),
        (TRIXIE, "python3 python3-dev python3-venv", "libboost-context1.83-dev"),
        (JAMMY, "python3.11 python3.11-dev python3.11-venv", "libboost-context-dev"),
        (NOBLE, "python3 python3-dev python3-venv", "libboost-context1.83-dev"),
    ],
    ids=["bookworm", "trixie", "jammy", "noble"],
)
def test_the_first_offered_package_is_taken(
    machine: Machine, offered: dict[str, str], python: str, boost: str
) -> None:
    machine.offer(offered)
    done = machine.bash("""python_packages; packages_for "$(system_needs | sed -n 's/^Boost.*|//p')" """)
    assert done.stdout.splitlines() == [python, boost], done.stderr


def test_boost_headers_that_are_installed_decide_the_version(machine: Machine) -> None:
    machine.offer(BOOKWORM | {"libboost-context1.74-dev": "1.74.0"})
    machine.play("dpkg-query", "printf 'ii  libboost1.74-dev\\nun  libboost1.81-dev\\n'")
    done = machine.bash('packages_for "libboost-context1.81-dev libboost-context-dev"')
    assert done.stdout.split() == ["libboost-context1.74-dev"], done.stderr


def test_without_apt_what_is_missing_is_named(machine: Machine) -> None:
    machine.play("c++", "exit 1")
    done = machine.bash("install_system_packages use", PYTHON="/nowhere/python3")
    assert done.returncode == 4
    for need in ("a C++20 compiler", "Boost.Context", "nlohmann/json", "Python 3.11 or newer"):
        assert need in done.stderr
    assert "doctest" not in done.stderr, "only what the level needs"
    assert "there is no apt-get here" in done.stderr


def test_without_root_and_sudo_the_command_is_named(machine: Machine) -> None:
    machine.offer(TRIXIE)
    machine.play("c++", "exit 1")
    machine.play("id", "echo 1000")
    machine.play("apt-get", "echo never called; exit 1")
    done = machine.bash("install_system_packages use", PYTHON="/nowhere/python3")
    assert done.returncode == 4
    assert "there is no sudo; as root, run: apt-get install g++ libboost-context1.83-dev" in done.stderr
    assert "python3 python3-dev python3-venv" in done.stderr


def test_with_sudo_the_packages_are_installed_through_it(machine: Machine) -> None:
    machine.offer(BOOKWORM)
    machine.play("c++", 'read -r line; [[ $line != *nlohmann* || -e "$BASH_SOURCE.installed" ]]')
    machine.play("id", "echo 1000")
    machine.play("sudo", 'exec "$@"')
    machine.play("apt-get", f'echo "$*" >&2; [[ $1 == install ]] && echo > {machine.bin}/c++.installed')
    machine.play("python3", "exit 0")
    done = machine.bash("install_system_packages use", PYTHON="python3")
    assert done.returncode == 0, done.stderr
    assert "setup: the system lacks: nlohmann/json\n" in done.stderr
    assert "setup: installing with apt: nlohmann-json3-dev\n" in done.stderr
    assert "install -y -qq --no-install-recommends nlohmann-json3-dev\n" in done.stderr


def test_when_everything_is_there_nothing_is_asked(machine: Machine) -> None:
    machine.play("c++", "cat >/dev/null")
    machine.play("python3", "exit 0")
    for program in ("qemu-system-x86_64", "flex", "bison", "bc", "patch"):
        machine.play(program, "exit 0")
    done = machine.bash("install_system_packages develop", PYTHON="python3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_python_that_is_too_old_is_named_with_the_remedy(machine: Machine) -> None:
    machine.play("old-python", 'case "$1" in -V) echo "Python 3.10.12";; *) exit 1;; esac')
    done = machine.bash('find_python || die "$(python_remedy)"', PYTHON=str(machine.bin / "old-python"))
    assert done.returncode == 4
    assert "Python 3.10.12" in done.stderr
    assert "apt install python3.11 python3.11-dev python3.11-venv" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_a_second_setup_has_nothing_to_do(root: Path) -> None:
    command = ["scripts/setup.sh", "develop"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    again = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    assert again.stderr == "", "setup speaks only of what it installs"
