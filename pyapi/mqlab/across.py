"""One case of an experiment on several kernels: the metric by version, in the order of release."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from mqlab.discovery import find_experiment
from mqlab.errors import UsageError
from mqlab.execution import Progress
from mqlab.guest import KERNEL_TARGET
from mqlab.kernels.version_order import version_key
from mqlab.measuring import OpenedStore, Wanted, measure
from mqlab.model import Case, Experiment, Metric, Variant
from mqlab.parameters import Scalar
from mqlab.result import Result
from mqlab.store import Store
from mqlab.targets import Target, get_target

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["MATRIX_SCHEMA", "Matrix", "MatrixPoint", "matrix"]

MATRIX_SCHEMA: Final = "mqlab.matrix/1"


@dataclass(frozen=True, slots=True)
class MatrixPoint:
    """One kernel: its release, one value a run, or why there is none."""

    kernel: str
    release: str
    values: tuple[float, ...]
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The median over the runs."""
        from mqlab.statistic import over_runs

        return over_runs(self.values) if self.values else None


@dataclass(frozen=True)
class Matrix:
    """A metric of a case by kernel version, oldest release first."""

    experiment: str
    case: str
    variant: str
    params: Mapping[str, Scalar]
    metric: Metric
    statistic: str
    points: tuple[MatrixPoint, ...]
    results: tuple[Result, ...]

    def frame(self) -> pd.DataFrame:
        """One row a kernel and run; a kernel without a value has one row with the reason."""
        import pandas as pd

        rows = [
            {"kernel": p.kernel, "release": p.release, "run": run, "value": value, "reason": p.reason}
            for p in self.points
            for run, value in enumerate(p.values or (None,))
        ]
        return pd.DataFrame(rows, columns=["kernel", "release", "run", "value", "reason"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": MATRIX_SCHEMA,
            "experiment": self.experiment,
            "case": self.case,
            "variant": self.variant,
            "params": dict(self.params),
            "metric": asdict(self.metric),
            "statistic": self.statistic,
            "kernels": [{**asdict(p), "values": list(p.values), "value": p.value} for p in self.points],
        }

    def table(self) -> str:
        """A table for a commit message: a line a kernel, with the ratio to the one before it."""
        from mqlab.table import matrix_table

        return matrix_table(self)

    def plot(self) -> Figure:
        """The metric by kernel version; kernels that could not measure it are marked."""
        from mqlab.plot import plot_matrix

        return plot_matrix(self)

    def __repr__(self) -> str:
        measured = sum(bool(p.values) for p in self.points)
        return f"<Matrix {self.experiment}, {self.metric.name}: {measured} of {len(self.points)} kernels>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


def matrix(
    id: str | Experiment,  # noqa: A002
    kernels: Sequence[str],
    *,
    case: str | None = None,
    metric: str | None = None,
    variant: str | None = None,
    statistic: str = "p50",
    runs: int | None = None,
    seed: int = 1,
    params: Mapping[str, Scalar] | None = None,
    label: str = "",
    store: Store | str | bool | None = None,
    progress: Progress | bool = True,
    make_target: Callable[[str], Target] | None = None,
) -> Matrix:
    """Measures one case on each of `kernels` (as `--kernel` takes them) in a guest.

    By default the first case that a guest does, its first metric, and the variant that is the kernel as it
    is. A kernel that cannot be had, booted or asked is kept with the reason. `make_target` makes the target
    of a kernel.
    """
    if not kernels or isinstance(kernels, str):
        raise UsageError("no kernels were given", "name some, as debian:6.12-cloud and debian:7.3-cloud")
    experiment = find_experiment(id)
    chosen = _case(experiment, case)
    as_it_is = _variant(experiment, chosen, variant)
    measured = _metric(experiment, chosen, metric)
    one = experiment.on_kernel().selected([as_it_is.id], [chosen.id]).with_settings(params or {})
    wanted = Wanted(runs, seed, label=label, progress=progress, keep_going=True)
    points: list[MatrixPoint] = []
    results: list[Result] = []
    with OpenedStore(store) as kept:
        for kernel in dict.fromkeys(kernels):
            target = make_target(kernel) if make_target else get_target(KERNEL_TARGET, kernel=kernel)
            try:
                result, _ = measure(one, target, wanted, kept)
            finally:
                target.close()
            if result.partial:
                raise KeyboardInterrupt
            results.append(result)
            points.append(_point(kernel, result, chosen, as_it_is, measured, statistic))
    points.sort(key=lambda point: version_key(point.release))
    return Matrix(
        one.id, chosen.id, as_it_is.id, dict(one.cases[0].params), measured, statistic,
        tuple(points), tuple(results),
    )  # fmt: skip


def _case(experiment: Experiment, case: str | None) -> Case:
    if case is not None:
        return experiment.case(case)
    for candidate in experiment.cases:
        if candidate.guest is not None:
            return candidate
    raise UsageError(f"no case of {experiment.id} is done in a guest", "give the case with --case")


def _variant(experiment: Experiment, case: Case, variant: str | None) -> Variant:
    """The named one, else the kernel as it is."""
    if variant is not None:
        return experiment.variant(variant)
    for candidate in experiment.variants_of(case):
        if candidate.patches == () and not candidate.fragment:
            return candidate
    raise UsageError(
        f"{case.id} of {experiment.id} has no variant without patches", "name one with --variant"
    )


def _metric(experiment: Experiment, case: Case, metric: str | None) -> Metric:
    if metric is not None:
        return experiment.metric(metric)
    known = set(case.guest.metrics) if case.guest is not None else set()
    return next((m for m in experiment.metrics if m.name in known), experiment.metrics[0])


def _point(
    kernel: str, result: Result, case: Case, variant: Variant, metric: Metric, statistic: str
) -> MatrixPoint:
    values = tuple(result.values(case.id, variant.id, metric.name, statistic))
    release = next((str(run.conditions["kernel"]) for run in result.runs if "kernel" in run.conditions), "")
    if values:
        return MatrixPoint(kernel, release, values)
    skip = next(iter(result.skips), None)
    reason = f"the workload gave no {metric.name}"
    if skip is not None:
        reason = f"{skip.reason} ({skip.remedy})" if skip.remedy else skip.reason
    return MatrixPoint(kernel, release or kernel.rpartition(":")[2], (), reason)
