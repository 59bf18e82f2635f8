"""The cases that a series is tried on: those that a guest can do, small enough to wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mqlab.errors import UsageError
from mqlab.model import Case, Experiment, Metric, Variant
from mqlab.parameters import Scalar

__all__ = ["case_title", "check_settings", "measured_metrics", "trial_experiment"]

_MOST_CASES_OF_A_KIND = 4
_DEVICES_SERIAL = 200
_DEVICES_PARALLEL = 1000
_IOS = 20_000


def trial_experiment(
    experiment: Experiment, sides: Mapping[str, tuple[int, ...]], settings: Mapping[str, Scalar], full: bool
) -> Experiment | None:
    """The experiment with sides (the numbers of their patches) as variants; None where no guest does it.

    Settings overrule the small sizes; `full` keeps the published ones, and all cases.
    """
    chosen = [replace(case, variants=()) for case in experiment.cases if case.guest is not None]
    if not chosen:
        return None
    variants = tuple(Variant(side, side, {}, numbers) for side, numbers in sides.items())
    small = tuple(case if full else _small(case) for case in chosen)
    trial = replace(experiment, variants=variants, cases=small, rows=(), curves=(), thread="")
    taken = {name: value for name, value in settings.items() if any(name in case.params for case in small)}
    if taken:
        trial = trial.with_settings(taken)
    named = [_renamed(case, before) for case, before in zip(trial.cases, chosen, strict=True)]
    return replace(trial, cases=tuple(_spread(_distinct(named)) if not full else named))


def check_settings(experiments: Sequence[Experiment], settings: Mapping[str, Scalar]) -> None:
    """Refuses a setting that no case takes."""
    known = {name for experiment in experiments for case in experiment.cases for name in case.params}
    for name in settings:
        if name not in known:
            raise UsageError(f"no case of the chosen experiments takes {name}", "see `mqlab show ID`")


def _small(case: Case) -> Case:
    """With fewer devices and I/Os, and their number in its id too."""
    limits = {
        "devices": _DEVICES_SERIAL if case.params.get("threads", 1) == 1 else _DEVICES_PARALLEL,
        "ios": _IOS,
    }
    smaller = {name: limit for name, limit in limits.items() if int(case.params.get(name, 0)) > limit}
    return replace(case, params={**case.params, **smaller})


def _renamed(case: Case, before: Case) -> Case:
    """An id that names a figure names the one that is used."""
    id_ = case.id
    for name in ("devices", "namespaces", "threads", "held_back"):
        old, new = before.params.get(name), case.params.get(name)
        if old != new:
            id_ = id_.replace(str(old), str(new), 1)
    return replace(case, id=id_)


def _distinct(cases: Sequence[Case]) -> list[Case]:
    """Two cases that became the same are one."""
    found: dict[str, Case] = {}
    for case in cases:
        if not any(same.workload == case.workload and same.params == case.params for same in found.values()):
            found.setdefault(case.id, case)
    return list(found.values())


def _spread(cases: Sequence[Case]) -> list[Case]:
    """Of many cases of one workload a few: the first, the last, and some between."""
    kept: list[Case] = []
    for workload in dict.fromkeys(case.workload for case in cases):
        kind = [case for case in cases if case.workload == workload]
        most = min(len(kind), _MOST_CASES_OF_A_KIND)
        picked = {round(n * (len(kind) - 1) / max(1, most - 1)) for n in range(most)}
        kept += [case for n, case in enumerate(kind) if n in picked]
    return [case for case in cases if case in kept]


def measured_metrics(experiment: Experiment, case: Case, measured: set[str]) -> list[Metric]:
    """The metrics that a case has on a real kernel: those that came, or where none did those it declares."""
    declared = set(case.guest.metrics) if case.guest is not None else set()
    return [metric for metric in experiment.metrics if metric.name in (measured or declared)]


def case_title(case: Case) -> str:
    """What is done, with the figures that were used rather than those of a published row."""
    named = ("devices", "threads", "namespaces", "transport", "held_back", "queues", "depth", "cpus")
    params = case.guest.workload_params(case.params) if case.guest is not None else case.params
    shown = {
        **{n: case.params[n] for n in named if n in case.params},
        **{n: params[n] for n in named if n in params},
    }
    figures = ", ".join(f"{name} {shown[name]}" for name in named if name in shown)
    return f"{case.id}: {figures}"
