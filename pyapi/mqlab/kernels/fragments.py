"""Configuration fragments: those that come with mqlab, the user's own, and what a kernel makes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from mqlab.errors import UnsupportedError, UsageError

__all__ = ["Fragment", "check_taken", "fragment_names", "load_fragments"]

_OPTION = re.compile(r"(?:CONFIG_(\w+)=(.*)|# CONFIG_(\w+) is not set)$")


@dataclass(frozen=True)
class Fragment:
    """Options to set, in order: name and value, "n" for one that is to be off. `optional` may be refused."""

    name: str
    options: tuple[tuple[str, str], ...]
    optional: frozenset[str]

    def text(self) -> str:
        """As kconfig reads it; remarks and blank lines make no other configuration, so they are left out."""
        return "".join(
            f"# CONFIG_{name} is not set\n" if value == "n" else f"CONFIG_{name}={value}\n"
            for name, value in self.options
        )


def fragment_names() -> list[str]:
    """Of those that come with mqlab, but for the one that only goes with a user's own configuration."""
    folder = files("mqlab") / "_kernel_configs"
    names = {f.name.removesuffix(".config") for f in folder.iterdir() if f.name.endswith(".config")}
    return sorted(names - {"own"})


def load_fragments(name: str) -> list[Fragment]:
    """The fragments of a name like `base`, `rt`, `rt+debug`, or a path: base first, as all stand on it."""
    parts = [part for part in name.split("+") if part != "base"]
    if Path(name).is_file():
        parts = [name]
    return [_load(part) for part in ["base", *parts]]


def _load(name: str) -> Fragment:
    shipped = files("mqlab") / "_kernel_configs" / f"{name}.config"
    if re.fullmatch(r"[a-z]+", name) and shipped.is_file():
        return _parse(name, shipped.read_text())
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"there is no fragment {name!r}: neither one of mqlab's nor a file",
            f"give {', '.join(fragment_names())}, or the path of a file of CONFIG_ lines",
        )
    return _parse(path.stem, path.read_text(errors="replace"))


def _parse(name: str, text: str) -> Fragment:
    options: dict[str, str] = {}
    optional: set[str] = set()
    marked = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        found = _OPTION.match(stripped)
        if found is not None:
            option = found[1] or found[3]
            options[option] = found[2] if found[1] else "n"
            optional |= {option} if marked else set()
        elif stripped and not stripped.startswith("#"):
            raise UsageError(
                f"line {number} of the fragment {name} is no option: {stripped[:60]!r}",
                "write CONFIG_NAME=value, or '# CONFIG_NAME is not set'",
            )
        marked = stripped == "# optional"
    return Fragment(name, tuple(options.items()), frozenset(optional))


def check_taken(fragments: Sequence[Fragment], config: str, tree: Path) -> list[str]:
    """Remarks about optional options that the kernel refused; UnsupportedError names the others.

    `config` is what olddefconfig made.
    """
    values = {
        found[1]: found[2] for line in config.splitlines() if (found := _OPTION.match(line)) and found[1]
    }
    wanted = {name: (value, f) for f in fragments for name, value in f.options}
    refused = {n: (v, f) for n, (v, f) in wanted.items() if values.get(n, "n") != v}
    remarks = [f"{n} is not in this kernel" for n, (_, f) in refused.items() if n in f.optional]
    lost = {n: (v, f) for n, (v, f) in refused.items() if n not in f.optional}
    if not lost:
        return remarks
    told = [
        f"{name} (wanted {value}, got {values.get(name, 'n')}"
        + ("" if name in values or _knows(tree, name) else ", unknown to this kernel")
        + f"; from {fragment.name})"
        for name, (value, fragment) in lost.items()
    ]
    raise UnsupportedError(
        f"the kernel's configuration refused {len(lost)} options: {', '.join(told[:8])}",
        "see what they depend on (make menuconfig, then /), or write '# optional' on the line before each "
        "in a fragment of your own",
    )


def _knows(tree: Path, option: str) -> bool:
    wanted = re.compile(rf"^\s*(?:menu)?config {option}\s*$", re.MULTILINE)
    return any(
        wanted.search(path.read_text(errors="replace")) for path in tree.rglob("Kconfig*") if path.is_file()
    )
