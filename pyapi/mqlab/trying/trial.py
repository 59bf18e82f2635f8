"""Trial: what came of trying a series, with its table, verdict and exit status. Immutable."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mqlab.commit_text import columns, finish, number, paragraph, ratio
from mqlab.kernels.kernel import Kernel
from mqlab.kernels.patch_file import Patch
from mqlab.model import Direction
from mqlab.provenance import measured_on
from mqlab.result import Result
from mqlab.trying.judging import Verdict, overall
from mqlab.trying.touched import Pick

__all__ = ["BASE", "SERIES", "TRY_SCHEMA", "Finding", "FindingKind", "Trial", "TrialRow", "series_title"]

TRY_SCHEMA = "mqlab.try/1"
BASE = "base"
SERIES = "series"
_MOST_SIDES = 4
_VERDICT_WIDTH = 14
_CELL_WIDTH = 10

FindingKind = Literal[
    "does not apply", "does not build", "does not boot", "breaks",
    "base does not build", "base does not boot", "base breaks",
]  # fmt: skip
_EXIT: Mapping[FindingKind, int] = {
    "does not apply": 2,
    "does not build": 1,
    "does not boot": 1,
    "breaks": 1,
    "base does not build": 4,
    "base does not boot": 4,
    "base breaks": 4,
}


@dataclass(frozen=True)
class Finding:
    """Something that kept a side from being measured: `what` in a sentence, `evidence` in its own words."""

    kind: FindingKind
    side: str
    what: str
    evidence: str
    experiment: str = ""
    case: str = ""

    def to_dict(self) -> dict[str, str]:
        return {
            "kind": self.kind, "side": self.side, "experiment": self.experiment, "case": self.case,
            "what": self.what, "evidence": self.evidence,
        }  # fmt: skip


@dataclass(frozen=True)
class TrialRow:
    """One figure on all sides. A side without a value says why in `reason`; `verdict` is the series'.

    `margin` is the share of change that did not count: the user's, or more where other seeds move base more.
    """

    experiment: str
    case: str
    title: str
    metric: str
    unit: str
    direction: Direction
    values: Mapping[str, float | None]
    verdict: Verdict
    margin: float = 0.0
    reason: str = ""

    def ratio(self, side: str) -> float | None:
        """The side's value over base's."""
        old, new = self.values.get(BASE), self.values.get(side)
        return new / old if old and new is not None else None

    def to_dict(self) -> dict[str, Any]:
        sides = [side for side in self.values if side != BASE]
        return {
            "experiment": self.experiment,
            "case": self.case,
            "title": self.title,
            "metric": self.metric,
            "unit": self.unit,
            "direction": self.direction,
            "values": dict(self.values),
            "ratios": {side: self.ratio(side) for side in sides},
            "verdict": self.verdict,
            "margin": self.margin,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Trial:
    """A series tried. `sides` are base and what stands against it, the whole series last."""

    title: str
    source: str
    patches: tuple[Patch, ...]
    sides: tuple[str, ...]
    margin: float
    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    picks: tuple[Pick, ...] = ()
    rows: tuple[TrialRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    results: tuple[Result, ...] = ()
    partial: bool = False

    @property
    def verdict(self) -> str:
        """What is wrong with the series, or what its rows say together."""
        own = [f for f in self.findings if not f.kind.startswith("base")]
        if own:
            return own[0].kind
        if self.findings and not any(row.values.get(BASE) is not None for row in self.rows):
            return self.findings[0].kind
        return overall([row.verdict for row in self.rows])

    @property
    def exit_status(self) -> int:
        """As the command line ends."""
        if self.partial:
            return 130
        own = [_EXIT[f.kind] for f in self.findings if not f.kind.startswith("base")]
        if own:
            return own[0]
        if any(row.verdict == "regressed" for row in self.rows):
            return 1
        if any(value is not None for row in self.rows for value in row.values.values()):
            return 0
        return 4 if self.findings or self.rows else 3

    def table(self) -> str:
        """For a commit message: ASCII, at most 75 columns, two spaces in front."""
        lines = [*paragraph(self.title), *paragraph(f"on {self.source}"), ""]
        experiments = list(dict.fromkeys(row.experiment for row in self.rows))
        for id_ in experiments:
            lines += self._experiment_lines(id_)
        for finding in self.findings:
            lines += paragraph(f"{finding.side} {finding.kind}: {finding.what}", 2, 2)
        lines += ["", *paragraph(f"Verdict: {self.verdict_text()}", 2, 2)]
        if any(result.runs for result in self.results):
            lines += paragraph(measured_on(self.results), 2, 2)
        return finish(lines)

    def verdict_text(self) -> str:
        counts = Counter(row.verdict for row in self.rows)
        told = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
        measured = f" ({told}; changes within {self.margin * 100:g} % do not count)" if told else ""
        return f"{self.verdict}{measured}"

    def evidence(self) -> str:
        """What was said where a side could not be measured: a hunk, a compiler, a kernel.

        Of a kernel that broke in several cases the first; to_dict() has them all.
        """
        first = {(f.side, f.kind): f for f in reversed(self.findings) if f.evidence}
        shown = [f for f in self.findings if first.get((f.side, f.kind)) is f]
        return "\n".join(f"{f.side} {f.kind}: {f.what}\n{f.evidence.rstrip()}\n" for f in shown)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": TRY_SCHEMA,
            "title": self.title,
            "source": self.source,
            "patches": [
                {"number": p.number, "id": p.id, "title": p.title(), "files": p.files()} for p in self.patches
            ],
            "kernels": {side: kernel.name for side, kernel in self.kernels.items()},
            "picked": [
                {"experiment": p.experiment.id, "why": [c.text() for c in p.why], "reason": p.reason()}
                for p in self.picks
            ],
            "margin": self.margin,
            "rows": [row.to_dict() for row in self.rows],
            "findings": [finding.to_dict() for finding in self.findings],
            "verdict": self.verdict,
            "exit_status": self.exit_status,
            "partial": self.partial,
            "table": self.table(),
        }

    def __repr__(self) -> str:
        return f"<Trial {self.title}: {self.verdict}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"

    def _experiment_lines(self, id_: str) -> list[str]:
        rows = [row for row in self.rows if row.experiment == id_]
        lines: list[str] = []
        others = self.sides[1:]
        for start in range(0, len(others), _MOST_SIDES):
            part = others[start : start + _MOST_SIDES]
            last = part[-1] == others[-1]
            one = len(others) == 1
            widths = [_CELL_WIDTH] * (1 + len(part) + one) + [_VERDICT_WIDTH] * last
            heads = [BASE, *part, *(["ratio"] if one else []), *([""] if last else [])]
            lines += columns(f"{id_}", heads, widths, indent=2)
            shown = told = ""
            for row in rows:
                if row.title != shown:
                    lines += paragraph(row.title, 4, 2)
                    shown, told = row.title, ""
                cells = [number(row.values.get(side)) for side in (BASE, *part)]
                cells += [ratio(row.ratio(part[0])) if row.ratio(part[0]) is not None else "-"] * one
                cells += [row.verdict] * last
                lines += columns(f"{row.metric} [{row.unit}]", cells, widths, indent=6)
                if row.reason and row.reason != told and last:
                    lines += paragraph(row.reason, 8, 2)
                told = row.reason
            lines.append("")
        return lines


def series_title(patches: Sequence[Patch]) -> str:
    """What a series is called: its first patch and how many more."""
    first = patches[0].title()
    more = len(patches) - 1
    return first + (f" and {more} more patch{'es' * (more > 1)}" if more else "")
