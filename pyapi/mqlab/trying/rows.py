"""From what was measured to the rows of a trial: one a figure, none missing, each with a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mqlab.model import Case, Metric
from mqlab.result import Result
from mqlab.statistic import over_runs
from mqlab.trying.cases import case_title, measured_metrics
from mqlab.trying.judging import judge
from mqlab.trying.trial import BASE, SERIES, Finding, TrialRow

__all__ = ["Rows"]

# Above, no chance of other seeds explains a change, so that its floor need not be measured.
_SURELY = 0.3


@dataclass(frozen=True)
class Rows:
    """`floors` are base's results with other seeds; `exact` says of each case whether its figures are."""

    results: Sequence[Result]
    floors: Sequence[Result]
    sides: Sequence[str]
    margin: float
    exact: Mapping[tuple[str, str], bool]
    findings: Sequence[Finding]

    def all(self) -> list[TrialRow]:
        return [
            self._row(result, case, metric)
            for result in self.results
            for case in result.definition.cases
            for metric in measured_metrics(result.definition, case, _measured(result, case))
        ]

    def small_changes(self) -> set[tuple[str, str]]:
        """The cases with exact figures that changed by more than the margin, but not by much."""
        found: set[tuple[str, str]] = set()
        for row in self.all():
            ratio = row.ratio(SERIES)
            changed = row.verdict in ("improved", "regressed") and ratio is not None
            if changed and self.exact[row.experiment, row.case] and abs((ratio or 0) - 1) < _SURELY:
                found.add((row.experiment, row.case))
        return found

    def _floor(self, experiment: str, case: str, name: str, base: Sequence[float]) -> float:
        """By how much base differs from itself with other seeds."""
        others = [
            value
            for result in self.floors
            if result.experiment == experiment and any(c.id == case for c in result.definition.cases)
            for value in result.values(case, BASE, name)
        ]
        if not base or not over_runs(base):
            return 0.0
        return max((abs(value / over_runs(base) - 1) for value in others), default=0.0)

    def _row(self, result: Result, case: Case, metric: Metric) -> TrialRow:
        found = {side: result.values(case.id, side, metric.name) for side in self.sides}
        exact = self.exact[result.experiment, case.id]
        floor = self._floor(result.experiment, case.id, metric.name, found[BASE])
        margin = max(self.margin, floor)
        verdict = judge(found[BASE], found[SERIES], metric.direction, margin, exact)
        if found[BASE] and not found[SERIES] and self._broke(result.experiment, case.id):
            verdict = "regressed"
        reasons = _skip_reasons(result, case)
        if floor > self.margin and verdict == "no change":
            reasons.append(f"other seeds alone change base by {floor * 100:.1f} %")
        if not reasons and not exact and verdict == "inconclusive":
            reasons.append(f"real time, {len(found[SERIES])} runs a side: the difference may be chance")
        values = {side: over_runs(values) if values else None for side, values in found.items()}
        return TrialRow(
            result.experiment,
            case.id,
            case_title(case),
            metric.name,
            metric.unit,
            metric.direction,
            values,
            verdict,
            margin,
            "; ".join(reasons),
        )

    def _broke(self, experiment: str, case: str) -> bool:
        return any(f.side == SERIES and (f.experiment, f.case) == (experiment, case) for f in self.findings)


def _skip_reasons(result: Result, case: Case) -> list[str]:
    """Why sides were not measured; once where it is the same for all."""
    skips = {s.variant: s.reason for s in result.skips if s.case == case.id}
    if len(set(skips.values())) == 1 and len(skips) == len(result.definition.variants):
        return [f"not measured: {next(iter(skips.values()))}"]
    return [f"{side}: {reason}" for side, reason in skips.items()]


def _measured(result: Result, case: Case) -> set[str]:
    return {name for run in result.runs if run.case == case.id for name in run.samples}
