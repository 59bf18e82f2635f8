"""Result: all runs of one experiment on one target. Immutable; reads back from a store equal to itself."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlab.model import Experiment
from mqlab.records import Fingerprint, ResultRecord, RunRecord, Skip
from mqlab.statistic import statistic

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["RUN_SCHEMA", "Result", "common_fingerprint"]

RUN_SCHEMA = "mqlab.run/1"


@dataclass(frozen=True)
class Result:
    """What `mqlab run` measured.

    `.frame()` is one row a sample, `.table()` the text for a commit message, `.plot()` a matplotlib Figure,
    and `.to_dict()` what `mqlab run --json` prints.
    """

    record: ResultRecord

    @property
    def experiment(self) -> str:
        return self.record.definition.id

    @property
    def definition(self) -> Experiment:
        return self.record.definition

    @property
    def target(self) -> str:
        return self.record.target

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        return self.record.runs

    @property
    def skips(self) -> tuple[Skip, ...]:
        return self.record.skips

    @property
    def partial(self) -> bool:
        return self.record.partial

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the runs have in common; see RunRecord.fingerprint for each."""
        return common_fingerprint([run.fingerprint for run in self.runs])

    def values(self, case: str, variant: str, metric: str, statistic_: str = "p50") -> list[float]:
        """One number a run: the statistic of the metric's samples."""
        found = (r for r in self.runs if r.case == case and r.variant == variant)
        return [statistic(statistic_, r.samples[metric]) for r in found if len(r.samples.get(metric, ()))]

    def frame(self) -> pd.DataFrame:
        """Tidy: one row a sample, and a column for each parameter of the cases."""
        import pandas as pd

        series = [(run, name, values) for run in self.runs for name, values in run.samples.items()]
        counts = np.array([len(values) for _, _, values in series], dtype=np.intp)
        metrics = {m.name: m for m in self.definition.metrics}

        def column(values: Sequence[Any]) -> Any:
            codes, levels = pd.factorize(pd.Series(list(values), dtype=object))
            return pd.Categorical.from_codes(np.repeat(codes, counts), levels)

        total = int(counts.sum())
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        columns: dict[str, Any] = {
            "experiment": pd.Categorical([self.experiment]).repeat(total),
            "variant": column([run.variant for run, _, _ in series]),
            "case": column([run.case for run, _, _ in series]),
            "metric": column([name for _, name, _ in series]),
            "unit": column([metrics[n].unit if n in metrics else "" for _, n, _ in series]),
            "direction": column([metrics[n].direction if n in metrics else "" for _, n, _ in series]),
            "target": pd.Categorical([self.target]).repeat(total),
            "run": np.repeat(np.array([run.run for run, _, _ in series], dtype=np.int64), counts),
            "sample": np.arange(total, dtype=np.int64) - starts,
            "value": np.concatenate([values for _, _, values in series]) if series else np.empty(0),
        }
        params = {case.id: case.params for case in self.definition.cases}
        for name in dict.fromkeys(name for case in params.values() for name in case):
            if name not in columns:
                given = pd.Series([params[run.case].get(name) for run, _, _ in series], dtype=object)
                columns[name] = np.repeat(given.infer_objects().to_numpy(), counts)
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: every sample, and no date, so that the same runs give the same bytes."""
        results: list[dict[str, Any]] = []
        for case in self.definition.cases:
            for variant in self.definition.variants_of(case):
                runs = [r for r in self.runs if r.case == case.id and r.variant == variant.id]
                results.extend(_series_dict(self.definition, case.id, variant.id, runs))
        return {
            "schema": RUN_SCHEMA,
            "experiment": self.experiment,
            "target": self.target,
            "fingerprint": self.fingerprint,
            "seed": self.record.seed,
            "profile": self.record.profile,
            "label": self.record.label,
            "version": self.record.tool_version,
            "partial": self.partial,
            "results": results,
            "skipped": [
                {"case": s.case, "variant": s.variant, "reason": s.reason, "remedy": s.remedy}
                for s in self.skips
            ],
        }

    def table(self) -> str:
        """A table for a commit message: two spaces in front, ASCII, at most 75 columns."""
        from mqlab.table import result_table

        return result_table(self)

    def plot(self) -> Figure:
        """A panel for each metric and case with every run of each variant."""
        from mqlab.plot import plot_result

        return plot_result(self)

    def curves(self) -> Figure:
        """The experiment's curves over one of its parameters."""
        from mqlab.plot import plot_curves

        return plot_curves(self)

    def __repr__(self) -> str:
        partial = ", partial" if self.partial else ""
        return f"<Result {self.experiment}: target {self.target}, {len(self.runs)} runs{partial}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


def _series_dict(
    definition: Experiment, case: str, variant: str, runs: Sequence[RunRecord]
) -> list[dict[str, Any]]:
    known = {m.name: m for m in definition.metrics}
    names = dict.fromkeys(name for run in runs for name in run.samples)
    return [
        {
            "variant": variant,
            "case": case,
            "params": {**definition.case(case).params, **runs[0].conditions},
            "metric": name,
            "unit": known[name].unit if name in known else "",
            "direction": known[name].direction if name in known else "",
            "runs": [run.samples[name].tolist() for run in runs if name in run.samples],
        }
        for name in names
    ]


def common_fingerprint(fingerprints: Sequence[Fingerprint]) -> dict[str, Any]:
    """The entries that all have in common; those that differ are listed under "differs"."""
    if not fingerprints:
        return {}
    first: Mapping[str, Any] = fingerprints[0]
    same = {k: v for k, v in first.items() if all(f.get(k) == v for f in fingerprints)}
    differing = sorted({k for f in fingerprints for k in f} - set(same))
    return {**same, "differs": differing} if differing else same
