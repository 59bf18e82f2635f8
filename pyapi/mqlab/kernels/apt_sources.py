"""The machine's own package sources: where its Debian mirror is, and which key signs it.

Both forms are read: one-line (sources.list, *.list) and deb822 (*.sources).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Source", "debian_source", "parse_deb822", "parse_one_line", "read_sources"]

_APT = Path("/etc/apt")
# Suites that only Debian has, by code name or by rank, with what is derived from them.
_DEBIAN_SUITE = re.compile(
    r"(?:bullseye|bookworm|trixie|forky|duke|sid|(?:old)*stable|testing|unstable|experimental)"
    r"(?:-(?:updates|backports|proposed-updates))?/?$"
)
_ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>.*)$"
)


@dataclass(frozen=True)
class Source:
    """One entry. `signed_by` is a path, or a key as deb822 embeds it."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""

    def is_debian(self) -> bool:
        """Whether it is an archive of Debian's main suites, not its security archive or another vendor's."""
        return "main" in self.components and any(_DEBIAN_SUITE.match(suite) for suite in self.suites)


def parse_one_line(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        found = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if found is None:
            continue
        options = dict(option.split("=", 1) for option in (found["options"] or "").split() if "=" in option)
        yield Source(
            (found["uri"],),
            (found["suite"],),
            tuple(found["components"].split()),
            options.get("signed-by", ""),
        )


def _stanza_fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and name:
            fields[name] += "\n" + line
        elif ":" in line:
            key, value = line.split(":", 1)
            name = key.strip().lower()
            fields[name] = value.strip()
    return fields


def parse_deb822(text: str) -> Iterator[Source]:
    for stanza in re.split(r"\n\s*\n", text):
        fields = _stanza_fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        yield Source(
            tuple(fields.get("uris", "").split()),
            tuple(fields.get("suites", "").split()),
            tuple(fields.get("components", "").split()),
            fields.get("signed-by", ""),
        )


def read_sources(apt: Path = _APT) -> list[Source]:
    """Every source of the machine, in apt's order."""
    sources: list[Source] = []
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".sources":
            sources += parse_deb822(text)
        elif path.suffix == ".list":
            sources += parse_one_line(text)
    return sources


def debian_source(sources: list[Source]) -> Source | None:
    """The first source that can be asked for any of Debian's suites."""
    return next((source for source in sources if source.uris and source.is_debian()), None)
