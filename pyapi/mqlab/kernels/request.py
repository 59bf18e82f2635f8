"""What a kernel is to be built from, as an object and as one word of a command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mqlab.errors import UsageError
from mqlab.kernels.fragments import fragment_names
from mqlab.kernels.patch_file import PatchSelection, parse_numbers

__all__ = ["BUILD_FORMS", "KernelRequest", "parse_request"]

BUILD_FORMS = "source:VERSION or tree:PATH@REF, then +FRAGMENT, then ,PATCHFILE[#NUMBERS]"

_FORM = re.compile(r"(?P<source>(?:source|tree):[^,]+)(?:,(?P<file>[^#]+)(?:#(?P<numbers>[\d,-]+))?)?$")


@dataclass(frozen=True)
class KernelRequest:
    """A source, a configuration and patches.

    `source` is source:VERSION (Debian's package) or tree:PATH@REF. `fragment` is one of mqlab's (base, rt,
    debug, or several as rt+debug) or the path of one that stands on base. With `config`, a whole
    configuration of the user's, the fragments stand on that instead of on allnoconfig.
    """

    source: str
    fragment: str = "base"
    patches: PatchSelection | None = None
    config: Path | None = None

    def text(self) -> str:
        """The form that parse_request() reads, but for `config`."""
        text = self.source + ("" if self.fragment == "base" else f"+{self.fragment}")
        if self.patches is not None:
            text += f",{self.patches.file}"
            if self.patches.numbers is not None:
                text += "#" + ",".join(map(str, self.patches.numbers))
        return text

    def unpatched(self) -> KernelRequest:
        """The kernel that the patches are put on."""
        return KernelRequest(self.source, self.fragment, None, self.config)


def parse_request(text: str) -> KernelRequest:
    """As in source:7.3+rt or tree:~/linux@v7.3,series.mbox#1-2."""
    found = _FORM.match(text)
    if found is None:
        raise UsageError(f"{text!r} names no kernel that can be built", f"write {BUILD_FORMS}")
    source, fragment = _split_fragment(found["source"])
    patches = None
    if found["file"]:
        numbers = parse_numbers(found["numbers"]) if found["numbers"] else None
        patches = PatchSelection(Path(found["file"]).expanduser(), numbers)
    return KernelRequest(source, fragment, patches)


def _split_fragment(source: str) -> tuple[str, str]:
    """A ref may hold a +, so only what is a fragment is taken off a tree's end."""
    if source.startswith("source:"):
        name, _, fragment = source.partition("+")
        return name, fragment or "base"
    known = fragment_names()
    parts: list[str] = []
    rest, plus, last = source.rpartition("+")
    while plus and (last in known or Path(last).is_file()):
        source, parts = rest, [last, *parts]
        rest, plus, last = source.rpartition("+")
    return source, "+".join(parts) or "base"
