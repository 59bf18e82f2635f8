"""From what a user names (debian:7.3-cloud, source:7.3+rt, image:PATH, ...) to a kernel on disk."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.build import Progress, build_kernel
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.debian import fetch_debian, parse_request
from mqlab.kernels.kernel import Kernel
from mqlab.kernels.request import BUILD_FORMS

__all__ = ["find_kernel"]

_FORMS = (
    "give a name that `mqlab kernel list` shows, debian:VERSION[-cloud|-rt], installed:RELEASE, image:PATH, "
    "or " + BUILD_FORMS
)


def _silent(_line: str) -> None:
    return


def find_kernel(
    source: str,
    *,
    cache: KernelCache | None = None,
    say: Callable[[str], None] = _silent,
    progress: Progress | None = None,
    refresh: bool = False,
) -> Kernel:
    """The kernel, fetched or built when it has to be. Errors say why not and what else there is."""
    form, _, rest = source.partition(":")
    match form:
        case "debian":
            cache = cache or KernelCache()
            kernel = fetch_debian(parse_request(rest), cache, say, refresh=refresh)
            cache.mark_used(kernel.name)
            return kernel
        case "source" | "tree" if rest:
            return build_kernel(source, cache=cache, say=say, progress=progress, refresh=refresh)
        case "installed":
            return _installed(rest or platform.release())
        case "image" if rest:
            return _image(Path(rest))
        case _:
            return _named(source, cache or KernelCache())


def _named(name: str, cache: KernelCache) -> Kernel:
    """An entry of the cache."""
    kernel = cache.find(name) if name and "/" not in name and not name.startswith(".") else None
    if kernel is None:
        raise UsageError(f"{name!r} names no kernel", _FORMS)
    cache.mark_used(name)
    return kernel


def _existing(*paths: Path) -> Path | None:
    return next((path for path in paths if path.exists()), None)


def _installed(release: str) -> Kernel:
    folder = Path("/lib/modules") / release
    image = _existing(Path("/boot") / f"vmlinuz-{release}", folder / "vmlinuz")
    if image is None:
        raise UnsupportedError(
            f"the kernel {release} has no image in /boot or {folder}", f"see ls /boot, or {_FORMS}"
        )
    return Kernel(
        f"installed:{release}",
        release,
        release,
        image,
        _existing(folder),
        _existing(Path("/boot") / f"config-{release}", folder / "config"),
    )


def _image(path: Path) -> Kernel:
    """An image of the user's own; a `config` and a `modules` folder beside it are taken where they are."""
    if not path.is_file():
        raise UsageError(f"there is no kernel image at {path}", _FORMS)
    return Kernel(
        f"image:{path}",
        path.name,
        path.name,
        path,
        _existing(path.parent / "modules"),
        _existing(path.parent / "config", path.parent / ".config"),
    )
