"""Kernels from Debian's packages, fetched with the machine's own mirror; nothing is installed.

`debian:7.3-cloud` is the newest point release of 7.3 in the cloud flavour that a suite has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.apt import OTHER_SOURCES, Package, PrivateApt, open_apt
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.kernel import Kernel

__all__ = ["DebianRequest", "cached_debian", "fetch_debian", "parse_request"]

FLAVOURS = ("cloud", "rt")

# Small lists and new kernels first.
SUITES = (
    "trixie-backports",
    "sid",
    "experimental",
    "forky",
    "bookworm-backports",
    "trixie",
    "bookworm",
)

_REQUEST = re.compile(r"(?P<version>\d+(?:\.\d+)*)(?:-(?P<flavour>[a-z]+))?$")
_IMAGE = re.compile(r"linux-image-(?P<abi>\d.*?)-(?:(?P<flavour>cloud|rt)-)?amd64$")


@dataclass(frozen=True)
class DebianRequest:
    """A version, whole or the first parts of one, and a flavour; "" is the common one."""

    version: str
    flavour: str

    def accepts(self, package: Package) -> bool:
        found = _IMAGE.match(package.name)
        if found is None or (found["flavour"] or "") != self.flavour:
            return False
        upstream = re.split(r"[-+~]", package.version, maxsplit=1)[0].split(".")
        wanted = self.version.split(".")
        return upstream[: len(wanted)] == wanted

    def text(self) -> str:
        return f"debian:{self.version}" + (f"-{self.flavour}" if self.flavour else "")


def parse_request(text: str) -> DebianRequest:
    """What stands after `debian:`."""
    found = _REQUEST.match(text)
    if found is None or (found["flavour"] or "cloud") not in FLAVOURS:
        raise UsageError(
            f"debian:{text} names no Debian kernel",
            f"give a version and a flavour if wanted ({', '.join(FLAVOURS)}), as in debian:7.3-cloud",
        )
    return DebianRequest(found["version"], found["flavour"] or "")


def fetch_debian(
    request: DebianRequest, cache: KernelCache, say: Callable[[str], None], *, refresh: bool = False
) -> Kernel:
    """The kernel, from the cache where it has one that fits and `refresh` does not ask for a newer one."""
    if not refresh and (cached := cached_debian(request, cache)) is not None:
        return cached
    with cache.locked():
        if not refresh and (cached := cached_debian(request, cache)) is not None:
            return cached  # another process fetched it while this one waited
        apt = open_apt(cache.root / "apt", say)
        suite, image = _find(request, apt)
        name = f"{image.name}_{image.version}"
        return cache.find(name) or _fetch(request, cache, apt, suite, image, name)


def cached_debian(request: DebianRequest, cache: KernelCache) -> Kernel | None:
    """The newest kernel of the cache that the request accepts."""
    fitting = [name for name in cache.names() if request.accepts(_package_of(name))]
    return cache.find(max(fitting, key=_numbers)) if fitting else None


def _package_of(entry: str) -> Package:
    name, _, version = entry.rpartition("_")
    return Package(name, version, "", "")


def _numbers(name: str) -> list[int]:
    """Of the version in an entry's name: enough to order what one request accepts."""
    return [int(part) for part in re.findall(r"\d+", name.rsplit("_", 1)[-1])]


def _find(request: DebianRequest, apt: PrivateApt) -> tuple[str, Package]:
    """The first suite that has the version, and the newest such package there."""
    asked: list[str] = []
    for suite in SUITES:
        if not apt.open_suite(suite):
            continue
        asked.append(suite)
        names = [name for name in apt.package_names(suite, "linux-image-") if _IMAGE.match(name)]
        best: Package | None = None
        for package in apt.packages(suite, names):
            if request.accepts(package) and (best is None or apt.is_newer(package.version, best.version)):
                best = package
        if best is not None:
            return suite, best
    if not asked:
        raise UnsupportedError(
            f"no suite of the machine's Debian mirror could be read: {apt.complaint()}",
            f"check that the mirror can be reached, or {OTHER_SOURCES}",
        )
    raise UnsupportedError(
        f"no suite has {request.text()} (asked: {', '.join(asked)})",
        f"ask for another version, or {OTHER_SOURCES}",
    )


def _with_companions(apt: PrivateApt, suite: str, image: Package) -> list[Package]:
    packages = {image.name: image}
    pending = image.companions()
    while pending:
        found = apt.packages(suite, [name for name in pending if name not in packages])
        packages |= {package.name: package for package in found}
        pending = [name for package in found for name in package.companions() if name not in packages]
    return list(packages.values())


def _fetch(
    request: DebianRequest, cache: KernelCache, apt: PrivateApt, suite: str, image: Package, name: str
) -> Kernel:
    with cache.staging() as downloads, cache.staging() as staged:
        for path in apt.download(suite, _with_companions(apt, suite, image), downloads):
            apt.unpack(path, staged)
        return cache.keep(name, staged, _unpacked_kernel(request, image, staged))


def _unpacked_kernel(request: DebianRequest, image: Package, folder: Path) -> Kernel:
    """Finds the parts: newer packages keep all in usr/lib/modules/RELEASE, older ones use boot and lib."""
    modules = next((path.parent for path in sorted(folder.glob("**/modules/*/kernel"))), None)
    release = modules.name if modules else image.name.removeprefix("linux-image-")
    places = [folder / "boot", *([modules] if modules else [])]
    images = [path for place in places for path in sorted(place.glob("vmlinuz*"))]
    configs = [path for place in places for path in sorted(place.glob("config*"))]
    if not images:
        raise UnsupportedError(f"{image.name} {image.version} holds no kernel image", OTHER_SOURCES)
    return Kernel(request.text(), release, image.version, images[0], modules, configs[0] if configs else None)
