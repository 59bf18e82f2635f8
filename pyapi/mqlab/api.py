"""What users call: run and reproduce experiments, list them, open the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqlab import _core
from mqlab.discovery import find_experiment, find_experiments
from mqlab.errors import UsageError
from mqlab.execution import Progress, carry_out
from mqlab.model import Experiment
from mqlab.parameters import Scalar, did_you_mean
from mqlab.planning import make_plan
from mqlab.profiles import load_profile
from mqlab.progress import progress_bar
from mqlab.published import load_thread, missing_figures, thread_ids
from mqlab.records import ResultRecord, RunRecord
from mqlab.reproduction import MeasuredBeside, Reproduction, ReproductionRow, compare_with_published
from mqlab.result import Result
from mqlab.store import Store, open_store_at
from mqlab.targets import Target, get_target

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExperimentList", "Interrupted", "list_experiments", "open_store", "reproduce", "run"]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while measuring.

    `result` (a Result or Reproduction) holds what was measured until then; the store has it too, marked
    partial.
    """

    def __init__(self, result: Any) -> None:
        super().__init__("interrupted; what was measured is kept")
        self.result = result


class ExperimentList(tuple[Experiment, ...]):
    """Experiments, with a notebook display."""

    def __repr__(self) -> str:
        return "\n".join(f"{e.id}: {e.title}" for e in self)

    def frame(self) -> pd.DataFrame:
        """One row an experiment."""
        import pandas as pd

        columns = ("id", "title", "question", "variants", "cases", "metrics")
        rows = [
            (
                e.id,
                e.title,
                e.question,
                ", ".join(v.id for v in e.variants),
                ", ".join(c.id for c in e.cases),
                ", ".join(f"{m.name} ({m.unit}, {m.direction} is better)" for m in e.metrics),
            )
            for e in self
        ]
        return pd.DataFrame(rows, columns=list(columns))

    def _repr_html_(self) -> str:
        return str(self.frame().to_html(index=False))


def list_experiments(file: str | Path | None = None) -> ExperimentList:
    """Every experiment found: shipped, from entry points, and in `file`."""
    return ExperimentList(find_experiments(file))


def open_store(url: str | None = None) -> Store:
    """The store at a path or URL; by default $MQLAB_STORE or a file in the user's data directory."""
    return open_store_at(url)


def run(
    id: str | Path | Experiment,  # noqa: A002
    *,
    target: str | None = "sim",
    runs: int | None = None,
    seed: int = 1,
    params: Mapping[str, Scalar] | None = None,
    variants: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    profile: str = "published",
    label: str = "",
    store: Store | str | bool | None = None,
    progress: Progress | bool = True,
) -> Result:
    """Runs an experiment and returns all its samples.

    `id` may be the path of a Python file. `target` None is sim, or native where the experiment has only
    that. `store` is a store, its path or URL, None for the user's own and False for none. Ctrl-C raises
    Interrupted, a KeyboardInterrupt that holds what was measured.
    """
    whole = find_experiment(id)
    _check_policies(whole)  # a policy may be known to the workload of a case that was not chosen
    experiment = whole.selected(variants, cases).with_settings(params or {})
    with _opened(store) as kept, closing(get_target(target or default_target(experiment))) as place:
        result, _ = _measure(experiment, place, runs, seed, profile, label, kept, progress)
    if result.partial:
        raise Interrupted(result)
    return result


def reproduce(
    ids: Sequence[str] | str | None = None,
    *,
    target: str = "sim",
    thread_files: str | Path | None = None,
    runs: int | None = None,
    seed: int = 1,
    params: Mapping[str, Scalar] | None = None,
    profile: str = "published",
    label: str = "",
    store: Store | str | bool | None = None,
    progress: Progress | bool = True,
    on_thread: Callable[[Reproduction], None] | None = None,
) -> Reproduction:
    """Every published row of the threads beside what was measured.

    `thread_files` is a folder with the thread files: the published figures are then checked against them.
    `on_thread` is handed each thread's rows as soon as they are there.
    """
    experiments = _experiments_of([ids] if isinstance(ids, str) else ids)
    remarks = _check_figures(experiments, Path(thread_files)) if thread_files is not None else ()
    if params:
        remarks = (*remarks, "Set by the user: " + ", ".join(f"{k}={v}" for k, v in params.items()) + ".")
    rows: list[ReproductionRow] = []
    results: list[Result] = []
    ids_: list[int] = []
    with _opened(store) as kept, closing(get_target(target)) as place:
        for experiment in experiments:
            _check_policies(experiment)
            needed = needed_for_rows(_settable(experiment, experiments, params or {}))
            result, id_ = _measure(needed, place, runs, seed, profile, label, kept, progress)
            part = _rows(result, place, profile)
            rows += part
            results.append(result)
            ids_ += [id_] if id_ is not None else []
            if on_thread:
                on_thread(Reproduction(part, (result,)))
            if result.partial:
                break
        reproduction = Reproduction(tuple(rows), tuple(results), remarks)
        if kept is not None:
            _save_reproduction(kept, reproduction, ids_)
    if reproduction.partial:
        raise Interrupted(reproduction)
    return reproduction


def load_result(store: Store, id_: int) -> Result:
    """A stored result."""
    return Result(store.load(id_))


def load_reproduction(store: Store, id_: int) -> Reproduction:
    """A stored reproduction with its results."""
    rows, remarks, result_ids = store.load_reproduction(id_)
    results = tuple(load_result(store, result_id) for result_id in result_ids)
    return Reproduction(tuple(ReproductionRow.from_dict(row) for row in rows), results, tuple(remarks))


def beside_sim(
    result: Result, *, profile: str = "guest", seed: int = 1, store: Store | str | bool | None = None
) -> MeasuredBeside | None:
    """For a result of a real kernel: the thread's rows with the published figures, the sim's and its own.

    The sim gets `profile` and the kernel's own HZ and CPUs. None where there is no thread, or for the sim
    itself.
    """
    definition = result.definition
    if not definition.thread or result.target == "sim" or not result.runs:
        return None
    with closing(get_target(result.target)) as place:
        thread, exact = load_thread(definition.thread), place.deterministic
        measured = compare_with_published(thread, result, frozenset(), place.basis, exact)
    shown = tuple(row for row in measured if row.status != "skipped")
    found = {k: v for run in result.runs for k, v in run.conditions.items() if k in ("hz", "cpus")}
    wanted = definition.selected(
        cases=[c.id for c in definition.cases if any(r.case == c.id for r in result.runs)]
    )
    own = {p.name for p in wanted.parameters if any(p.name in c.params for c in wanted.cases)}
    settings = {k: v for k, v in found.items() if k in own}
    with closing(get_target("sim")) as place, _opened(store) as kept:
        sim, _ = _measure(
            needed_for_rows(wanted.with_settings(settings)), place, None, seed, profile, "", kept, True
        )
        rows = _rows(sim, place, profile)
    return MeasuredBeside(Reproduction(shown, (result,)), f"sim, {profile}", Reproduction(rows, (sim,)))


def default_target(experiment: Experiment) -> str:
    """sim, or native for an experiment whose workloads are all Python functions that measure real time."""
    from mqlab.python_workloads import find_python_workload

    found = [find_python_workload(case.workload) for case in experiment.cases]
    return "native" if all(w is not None and "sim" not in w.targets for w in found) else "sim"


def _measure(
    experiment: Experiment,
    target: Target,
    runs: int | None,
    seed: int,
    profile_name: str,
    label: str,
    store: Store | None,
    progress: Progress | bool,
) -> tuple[Result, int | None]:
    profile = load_profile(profile_name) if target.uses_profile else None
    count = target.default_runs if runs is None else runs
    plan = make_plan(experiment, target.name, count, seed, profile)
    record = ResultRecord(
        experiment,
        target.name,
        seed,
        datetime.now(UTC),
        _core.version(),
        target.clock,
        label=label,
        profile=profile.name if profile else "",
        partial=True,
    )
    id_ = store.begin(record) if store is not None else None

    def keep(done: RunRecord) -> None:
        if store is not None and id_ is not None:
            store.add_run(id_, experiment, done)

    with progress_bar(progress, experiment.id) as shown:
        outcome = carry_out(plan, target, on_run=keep, progress=shown)
    if store is not None and id_ is not None:
        store.finish(id_, outcome.skips, outcome.interrupted)
    record = replace(record, runs=outcome.runs, skips=outcome.skips, partial=outcome.interrupted)
    return Result(record), id_


def _check_policies(experiment: Experiment) -> None:
    """Refuses a policy that no workload of the experiment knows: it would be left out silently."""
    known: dict[str, list[str]] = {
        w["name"]: [p["name"] for p in w["policies"]] for w in json.loads(_core.list_workloads())
    }
    used = {case.workload for case in experiment.cases}
    if not used <= set(known):
        return  # a Python workload takes what it is given; an unknown one is refused by the target
    offered = sorted({policy for name in used for policy in known[name]})
    for variant in experiment.variants:
        for policy in variant.policies:
            if policy not in offered:
                raise UsageError(
                    f"variant {variant.id} of {experiment.id}: no workload has a policy {policy!r}",
                    did_you_mean(policy, offered),
                )


def _experiments_of(ids: Sequence[str] | None) -> list[Experiment]:
    experiments = [e for e in find_experiments() if e.thread]
    if ids is None or not ids:
        return experiments
    by_thread = {e.thread: e for e in experiments}
    for id_ in ids:
        if id_ not in by_thread:
            raise UsageError(f"no thread is called {id_!r}", did_you_mean(id_, list(thread_ids())))
    return [by_thread[id_] for id_ in dict.fromkeys(ids)]


def needed_for_rows(experiment: Experiment) -> Experiment:
    """Only the cases and variants that a published row is measured by or a curve is drawn from."""
    wanted: dict[str, set[str]] = {}
    for row in experiment.rows:
        wanted.setdefault(row.case, set()).update({row.before} - {""})
        wanted.setdefault(row.after_case or row.case, set()).update({row.after} - {""})
    for curve in experiment.curves:
        for case_id in curve.cases:
            wanted.setdefault(case_id, set()).update({curve.before, curve.after})
    cases = tuple(
        replace(case, variants=tuple(v.id for v in experiment.variants if v.id in wanted[case.id]))
        for case in experiment.cases
        if wanted.get(case.id)
    )
    return replace(experiment, cases=cases)


def _settable(experiment: Experiment, all_: Sequence[Experiment], params: Mapping[str, Scalar]) -> Experiment:
    """The experiment with those settings that it knows; one that none knows is refused."""
    for name in params:
        if not any(p.name == name for e in all_ for p in e.parameters):
            known = sorted({p.name for e in all_ for p in e.parameters})
            raise UsageError(f"unknown parameter {name!r}", did_you_mean(name, known))
    own = {p.name for p in experiment.parameters if any(p.name in c.params for c in experiment.cases)}
    return experiment.with_settings({k: v for k, v in params.items() if k in own})


def _rows(result: Result, target: Target, profile: str) -> tuple[ReproductionRow, ...]:
    fitted = load_profile(profile).fitted_rows() if target.uses_profile else frozenset()
    thread = load_thread(result.definition.thread)
    return compare_with_published(thread, result, fitted, target.basis, target.deterministic)


def _check_figures(experiments: Sequence[Experiment], folder: Path) -> tuple[str, ...]:
    return tuple(
        f"{experiment.thread}: the figures of {', '.join(missing)} do not stand in the thread file."
        for experiment in experiments
        if (missing := missing_figures(load_thread(experiment.thread), folder))
    )


def _save_reproduction(store: Store, reproduction: Reproduction, result_ids: Sequence[int]) -> int:
    rows = [row.to_dict() for row in reproduction.rows]
    return store.save_reproduction(datetime.now(UTC), _core.version(), rows, reproduction.remarks, result_ids)


class _opened:  # noqa: N801
    """The store to write to: opened here, and closed again only if so."""

    def __init__(self, store: Store | str | bool | None) -> None:
        self._given = store
        self._own: Store | None = None

    def __enter__(self) -> Store | None:
        if self._given is False:
            return None
        if isinstance(self._given, Store):
            return self._given
        if self._given is not None and not isinstance(self._given, str | bool):
            raise UsageError(
                f"{self._given!r} is no store", "give a Store, its path or URL, or False for none"
            )
        self._own = open_store_at(self._given if isinstance(self._given, str) else None)
        return self._own

    def __exit__(self, *_error: object) -> None:
        if self._own is not None:
            self._own.close()
