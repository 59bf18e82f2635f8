"""Kernel sources: Debian's source package, or a ref of the user's own git tree.

A source has an identity, the same wherever it lies, and can be unpacked into an empty folder. Unpacked files
keep times of the past, so that whatever is newer in a tree was built there.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.apt import OTHER_SOURCES, Package, PrivateApt, open_apt
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.debian import SUITES

__all__ = ["DebianSource", "GitSource", "Source", "find_debian_source", "find_git_source", "parse_tree"]

_GIT_LIMIT_S = 120.0
_UNPACK_LIMIT_S = 1800.0
_DESCRIPTION = "source.json"
# With more, next to everything is built again anyway.
_MOST_CHANGES = 3000
_VERSION = re.compile(r"\d+(?:\.\d+)*$")


# Content and mode by name; None for a file that is gone.
Changes = dict[str, tuple[bytes, int] | None]


class Source(Protocol):
    """Where a tree comes from. `text` is what the user named, `version` says in full what came."""

    @property
    def text(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def identity(self) -> str: ...

    def unpack(self, folder: Path) -> None:
        """Into an empty folder."""

    def changed_since(self, identity: str) -> Changes | None:
        """What differs from another source of that identity; None where that cannot be told."""


@dataclass(frozen=True)
class DebianSource:
    """A linux-source package in the cache."""

    text: str
    version: str
    tarball: Path

    @property
    def identity(self) -> str:
        return f"debian {self.version}"

    def unpack(self, folder: Path) -> None:
        _run_checked(
            ["tar", "-x", "--strip-components=1", "-f", str(self.tarball), "-C", str(folder)],
            f"unpacking {self.tarball.name}",
        )

    def changed_since(self, identity: str) -> Changes | None:
        return None  # another tarball shares nothing that could be asked


@dataclass(frozen=True)
class GitSource:
    """A commit of a repository. Its checkout is neither read nor written."""

    text: str
    version: str
    repository: Path
    commit: str
    tree: str

    @property
    def identity(self) -> str:
        return f"git {self.tree}"

    def unpack(self, folder: Path) -> None:
        with subprocess.Popen(
            ["git", "-C", str(self.repository), "archive", "--format=tar", self.commit],
            stdout=subprocess.PIPE,
        ) as archive:
            _run_checked(["tar", "-x", "-C", str(folder)], f"unpacking {self.text}", stdin=archive.stdout)
        if archive.returncode != 0:
            raise UnsupportedError(
                f"git archive of {self.text} ended with status {archive.returncode}", "run git fsck there"
            )

    def changed_since(self, identity: str) -> Changes | None:
        """Files only: a tree that this repository does not know, or a link that changed, is None."""
        form, _, other = identity.partition(" ")
        if form != "git" or _try_git(self.repository, ["cat-file", "-e", f"{other}^{{tree}}"]) is None:
            return None
        listing = _try_git(self.repository, ["diff-tree", "-r", "-z", "--no-renames", other, self.tree])
        if listing is None:
            return None
        fields = listing.split("\0")
        if len(fields) > 2 * _MOST_CHANGES:
            return None
        changes: Changes = {}
        for head, name in zip(fields[0::2], fields[1::2], strict=False):
            _, mode, _, blob, status = head.split(" ")
            if status == "D":
                changes[name] = None
            elif mode.startswith("100"):
                changes[name] = (_read_blob(self.repository, blob), int(mode[-3:], 8))
            else:
                return None
        return changes


def _run_checked(command: list[str], what: str, stdin: object = subprocess.DEVNULL) -> None:
    done = subprocess.run(
        command,
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=_UNPACK_LIMIT_S,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        raise UnsupportedError(
            f"{what} was answered with: {done.stderr.strip()[-300:]}", "see that the disk is not full"
        )


# ---- Debian ----


def find_debian_source(
    version: str, cache: KernelCache, say: Callable[[str], None], *, refresh: bool = False, fetch: bool = True
) -> DebianSource | None:
    """The newest linux-source of the version: from the cache, else fetched; None where that is not wanted."""
    if _VERSION.match(version) is None:
        raise UsageError(f"source:{version} names no version", "write source:7.3 or source:7.3.4")
    if not refresh and (cached := _cached(version, cache)) is not None:
        return cached
    if not fetch:
        return None
    with cache.locked():
        if not refresh and (cached := _cached(version, cache)) is not None:
            return cached
        apt = open_apt(cache.root / "apt", say)
        suite, package = _find(version, apt)
        known = _read(cache.sources / _entry(package), version)
        return known or _fetch(version, cache, apt, suite, package)


def _entry(package: Package) -> str:
    return f"{package.name}_{package.version}"


def _accepts(wanted: str, version: str) -> bool:
    parts = wanted.split(".")
    return re.split(r"[-+~]", version, maxsplit=1)[0].split(".")[: len(parts)] == parts


def _cached(version: str, cache: KernelCache) -> DebianSource | None:
    found = [_read(path.parent, version) for path in cache.sources.glob(f"*/{_DESCRIPTION}")]
    fitting = [source for source in found if source is not None and _accepts(version, source.version)]
    return max(fitting, key=lambda s: [int(n) for n in re.findall(r"\d+", s.version)], default=None)


def _read(folder: Path, version: str) -> DebianSource | None:
    try:
        fields = json.loads((folder / _DESCRIPTION).read_text())
        tarball = folder / fields["tarball"]
        return DebianSource(f"source:{version}", fields["version"], tarball) if tarball.is_file() else None
    except (OSError, ValueError, KeyError):
        return None


def _find(version: str, apt: PrivateApt) -> tuple[str, Package]:
    asked: list[str] = []
    for suite in SUITES:
        if not apt.open_suite(suite):
            continue
        asked.append(suite)
        names = [
            n for n in apt.package_names(suite, "linux-source-") if _VERSION.match(n[len("linux-source-") :])
        ]
        best: Package | None = None
        for package in apt.packages(suite, names):
            if _accepts(version, package.version) and (
                best is None or apt.is_newer(package.version, best.version)
            ):
                best = package
        if best is not None:
            return suite, best
    told = f"asked: {', '.join(asked)}" if asked else f"none could be read: {apt.complaint()}"
    raise UnsupportedError(
        f"no suite of the machine's Debian mirror has linux-source-{version} ({told})",
        f"build a tree of your own (tree:PATH@REF), or {OTHER_SOURCES}",
    )


def _fetch(version: str, cache: KernelCache, apt: PrivateApt, suite: str, package: Package) -> DebianSource:
    with cache.staging() as downloads, cache.staging() as staged:
        for path in apt.download(suite, [package], downloads):
            apt.unpack(path, staged)
        tarball = next(staged.glob("usr/src/linux-source-*.tar.*"), None)
        if tarball is None:
            raise UnsupportedError(f"{package.name} {package.version} holds no source", OTHER_SOURCES)
        folder = cache.sources / _entry(package)
        folder.mkdir(parents=True, exist_ok=True)
        tarball.rename(folder / tarball.name)
        fields = {"version": package.version, "tarball": tarball.name, "sha256": package.sha256}
        (folder / _DESCRIPTION).write_text(json.dumps(fields, indent=2) + "\n")
    source = _read(folder, version)
    assert source is not None
    return source


# ---- git ----


def parse_tree(text: str) -> tuple[Path, str]:
    """PATH@REF; a path may hold an @, and so may a ref. Without a ref it is HEAD."""
    if Path(text).is_dir():
        return Path(text), "HEAD"
    for at in (found.start() for found in re.finditer("@", text)):
        if Path(text[:at]).is_dir() and text[at + 1 :]:
            return Path(text[:at]), text[at + 1 :]
    raise UsageError(f"tree:{text} names no folder", "write tree:PATH@REF, as in tree:~/linux@v7.3")


def find_git_source(text: str, say: Callable[[str], None]) -> GitSource:
    """`text` is what stands after `tree:`."""
    path, ref = parse_tree(str(Path(text).expanduser()))
    commit = _git(
        path, ["rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"], f"no commit {ref}"
    )
    tree = _git(path, ["rev-parse", f"{commit}^{{tree}}"], "no tree")
    if ref == "HEAD" and _git(path, ["--no-optional-locks", "status", "--porcelain", "-uno"], "no status"):
        say(f"changes in {path} that are not committed are left out: HEAD is what is built")
    described = _git(path, ["describe", "--always", "--tags", commit], "no description")
    makefile = _git(path, ["show", f"{commit}:Makefile"], "no Makefile, so it holds no kernel")
    if "KERNELVERSION" not in makefile:
        raise UsageError(f"{path} at {ref} holds no kernel", "name a repository of the kernel")
    return GitSource(f"tree:{path}@{ref}", f"{described} ({commit[:12]})", path.resolve(), commit, tree)


def _try_git(path: Path, arguments: list[str]) -> str | None:
    done = subprocess.run(
        ["git", "-C", str(path), *arguments], capture_output=True, text=True, errors="surrogateescape"
    )
    return done.stdout if done.returncode == 0 else None


def _read_blob(path: Path, blob: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(path), "cat-file", "blob", blob], capture_output=True, check=True
    ).stdout


def _git(path: Path, arguments: list[str], failure: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(path), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_LIMIT_S,
        )
    except FileNotFoundError as error:
        raise UnsupportedError("there is no git on this machine", "apt-get install git") from error
    if done.returncode != 0:
        raise UsageError(
            f"{path}: {failure}; git said: {done.stderr.strip()[-300:]}",
            "name a git repository of the kernel and one of its commits, as tree:PATH@REF",
        )
    return done.stdout.strip()


def short_hash(*parts: str) -> str:
    """Of texts, for names in the cache."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
