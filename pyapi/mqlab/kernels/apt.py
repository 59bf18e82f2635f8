"""Packages of any Debian suite, fetched through the machine's own mirror with an apt state of our own.

Nothing of the machine's apt changes and nothing is installed: lists, caches and configuration lie in a
folder of ours. Of the machine's configuration only how to reach a mirror (Acquire::*) is taken over, since
hooks in it could write elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.kernels.apt_sources import Source, debian_source, read_sources

__all__ = ["OTHER_SOURCES", "Package", "PrivateApt", "open_apt"]

OTHER_SOURCES = (
    "use another source of kernels: image:PATH (a vmlinuz or bzImage of yours), installed:RELEASE (one in "
    "/boot), or tree:PATH@REF (built from your own git tree); as --kernel or MQLAB_KERNEL"
)

_FRESH_S = 24 * 3600.0
_UPDATE_LIMIT_S = 600.0
_QUERY_LIMIT_S = 120.0


@dataclass(frozen=True)
class Package:
    """One version of a package, as a suite lists it."""

    name: str
    version: str
    depends: str
    sha256: str

    def companions(self) -> list[str]:
        """Packages of the same source that it needs in its own version, which hold the rest of a kernel."""
        exact = re.findall(r"(linux-[a-z0-9.+~-]+) \(= ([^)]+)\)", self.depends)
        return [name for name, version in exact if version == self.version]


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UnsupportedError(
            f"there is no {name} on this machine, so no Debian package can be read", OTHER_SOURCES
        )
    return found


def open_apt(folder: Path, say: Callable[[str], None], apt: Path = Path("/etc/apt")) -> PrivateApt:
    """An apt state in `folder` that asks the machine's Debian mirror; UnsupportedError where it has none."""
    source = debian_source(read_sources(apt))
    if source is None:
        raise UnsupportedError(
            f"the package sources of this machine ({apt}) name no Debian mirror", OTHER_SOURCES
        )
    return PrivateApt(folder, source, say)


class PrivateApt:
    """Answers questions about one suite at a time. Not for several threads at once."""

    def __init__(self, folder: Path, source: Source, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._source = source
        self._say = say
        for name in ("apt-get", "apt-cache", "apt-config", "dpkg-deb", "dpkg"):
            _tool(name)

    def open_suite(self, suite: str) -> bool:
        """Whether the mirror has the suite. Its lists are fetched when they are older than a day."""
        folder = self._suite_folder(suite)
        stamp = folder / "fetched"
        if stamp.is_file() and time.time() - stamp.stat().st_mtime < _FRESH_S:
            return True
        self._write_configuration(suite)
        self._say(f"reading the package list of {suite}")
        done = self._run(suite, ["apt-get", "update", "-q"], _UPDATE_LIMIT_S)
        if done.returncode == 0:
            stamp.touch()
            return True
        self._complaint = _errors_of(done)
        return stamp.is_file()  # old lists are better than none

    def complaint(self) -> str:
        """What apt said when a suite could not be read last."""
        return getattr(self, "_complaint", "")

    def package_names(self, suite: str, prefix: str) -> list[str]:
        done = self._run(suite, ["apt-cache", "pkgnames", prefix], _QUERY_LIMIT_S)
        return sorted(done.stdout.split())

    def packages(self, suite: str, names: Sequence[str]) -> list[Package]:
        """Every version that the suite has of the named packages."""
        if not names:
            return []
        done = self._run(suite, ["apt-cache", "show", "--no-all-versions", *names], _QUERY_LIMIT_S)
        return [_package(stanza) for stanza in done.stdout.split("\n\n") if stanza.startswith("Package:")]

    def download(self, suite: str, packages: Sequence[Package], folder: Path) -> list[Path]:
        """Fetches the packages into `folder`; apt checks their hashes against the signed lists."""
        wanted = [f"{package.name}={package.version}" for package in packages]
        self._say(f"fetching {', '.join(wanted)}")
        done = self._run(suite, ["apt-get", "download", "-q", *wanted], _UPDATE_LIMIT_S, folder)
        files = sorted(folder.glob("*.deb"))
        if done.returncode != 0 or len(files) < len(wanted):
            raise UnsupportedError(
                f"fetching {wanted[0]} from {suite} was answered with: {_errors_of(done)}",
                f"check that the mirror can be reached, or {OTHER_SOURCES}",
            )
        return files

    def is_newer(self, version: str, other: str) -> bool:
        """By Debian's rules."""
        return subprocess.run([_tool("dpkg"), "--compare-versions", version, "gt", other]).returncode == 0

    def unpack(self, package: Path, folder: Path) -> None:
        """Only unpacks; no script of the package runs."""
        subprocess.run([_tool("dpkg-deb"), "-x", str(package), str(folder)], check=True, capture_output=True)

    def _suite_folder(self, suite: str) -> Path:
        return self._folder / suite

    def _write_configuration(self, suite: str) -> None:
        folder = self._suite_folder(suite)
        for name in ("lists/partial", "cache/archives/partial", "none"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        signed_by = f"Signed-By: {self._source.signed_by}\n" if self._source.signed_by else ""
        (folder / "debian.sources").write_text(
            f"Types: deb\nURIs: {' '.join(self._source.uris)}\nSuites: {suite}\nComponents: main\n{signed_by}"
        )
        (folder / "status").touch()
        settings = {
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": folder / "none",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": folder / "none",
            "Dir::Etc::sourcelist": folder / "debian.sources",
            "Dir::Etc::sourceparts": folder / "none",
            "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
        }
        lines = [*_mirror_settings(), *(f'{name} "{value}";' for name, value in settings.items())]
        (folder / "apt.conf").write_text("\n".join(lines) + "\n")

    def _run(
        self, suite: str, command: Sequence[str], limit_s: float, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(self._suite_folder(suite) / "apt.conf"), "LC_ALL": "C"}
        try:
            return subprocess.run(
                [_tool(command[0]), *command[1:]],
                capture_output=True,
                text=True,
                env=environment,
                cwd=cwd,
                timeout=limit_s,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise UnsupportedError(
                f"{' '.join(command[:2])} for {suite} did not end within {limit_s:.0f} s",
                f"check that the mirror can be reached, or {OTHER_SOURCES}",
            ) from error


def _mirror_settings() -> list[str]:
    """How the machine reaches its mirrors: proxies, certificates, retries."""
    done = subprocess.run(
        [_tool("apt-config"), "dump", "Acquire"], capture_output=True, text=True, check=True
    )
    skipped = ("Acquire::IndexTargets", "Acquire::Changelogs")
    return [
        line
        for line in done.stdout.splitlines()
        if line.startswith("Acquire::") and not line.startswith(skipped) and '""' not in line
    ]


def _errors_of(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line[3:] for line in done.stderr.splitlines() if line.startswith("E: ")]
    return "; ".join(lines[:3]) or f"status {done.returncode}"


def _package(stanza: str) -> Package:
    fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", stanza, re.MULTILINE))
    depends = ", ".join(fields[name] for name in ("Pre-Depends", "Depends") if name in fields)
    return Package(fields["Package"], fields["Version"], depends, fields.get("SHA256", ""))
