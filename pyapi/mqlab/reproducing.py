"""The published rows of a thread, measured on a target; beside a real kernel in the sim as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from mqlab.discovery import find_experiments
from mqlab.errors import MqlabError, UsageError
from mqlab.guest import KERNEL_TARGET
from mqlab.measuring import OpenedStore, Wanted, measure, needed_for_rows
from mqlab.model import Case, Experiment
from mqlab.parameters import Scalar, did_you_mean
from mqlab.profiles import load_profile
from mqlab.published import load_thread, thread_ids
from mqlab.reproduction import Reproduction, ReproductionRow, compare_with_published, with_sim
from mqlab.result import Result
from mqlab.store import Store
from mqlab.targets import Target, get_target, manner_of

__all__ = ["beside_sim", "reproduce_one", "settable", "thread_experiments"]

# The sim that a deterministic guest is held against: one CPU executes at a time, 1 ns an instruction.
_GUEST_PROFILE = "guest"


def reproduce_one(
    experiment: Experiment, target: Target, wanted: Wanted, store: Store | None
) -> tuple[Reproduction, list[int]]:
    """The rows of the experiment's thread, and the ids of the results in the store."""
    seen = experiment.on_kernel() if target.name == KERNEL_TARGET else experiment
    needed = needed_for_rows(seen)
    result, id_ = measure(needed, target, wanted, store)
    rows = _rows(result, target, wanted.profile)
    ids = [id_] if id_ is not None else []
    if target.name != KERNEL_TARGET or result.partial or not result.runs:
        return Reproduction(rows, (result,)), ids
    sim, sim_id, remarks = _sim_like(result, wanted, store)
    if sim is None:
        return Reproduction(rows, (result,), remarks), ids
    with closing(get_target("sim")) as place:
        beside = with_sim(rows, _rows(sim, place, _GUEST_PROFILE))
    return Reproduction(beside, (result, sim), remarks), ids + ([sim_id] if sim_id is not None else [])


def beside_sim(
    result: Result, *, seed: int = 1, store: Store | str | bool | None = None
) -> Reproduction | None:
    """For a result of a real kernel: its thread's rows with the published figures and the sim's.

    None where there is no thread, or for another target.
    """
    definition = result.definition
    if not definition.thread or result.target != KERNEL_TARGET or not result.runs:
        return None
    with closing(get_target(result.target)) as place:
        rows = _rows(result, place, "")
    shown = tuple(row for row in rows if row.measured)
    with OpenedStore(store) as kept:
        sim, _, remarks = _sim_like(result, Wanted(seed=seed, keep_going=True), kept)
    if sim is None:
        return Reproduction(shown, (result,), remarks)
    with closing(get_target("sim")) as place:
        return Reproduction(with_sim(shown, _rows(sim, place, _GUEST_PROFILE)), (result, sim), remarks)


def thread_experiments(ids: Sequence[str] | None) -> list[Experiment]:
    """Those that reproduce a thread, all or the named ones."""
    experiments = [e for e in find_experiments() if e.thread]
    if ids is None or not ids:
        return experiments
    by_thread = {e.thread: e for e in experiments}
    for id_ in ids:
        if id_ not in by_thread:
            raise UsageError(f"no thread is called {id_!r}", did_you_mean(id_, list(thread_ids())))
    return [by_thread[id_] for id_ in dict.fromkeys(ids)]


def settable(experiment: Experiment, all_: Sequence[Experiment], params: Mapping[str, Scalar]) -> Experiment:
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
    inexact = frozenset(c.id for c in result.definition.cases if not manner_of(target, c).deterministic)
    return compare_with_published(thread, result, fitted, target.basis, target.deterministic, inexact)


def _sim_like(
    result: Result, wanted: Wanted, store: Store | None
) -> tuple[Result | None, int | None, tuple[str, ...]]:
    """The sim with the HZ and the CPUs that each case of `result` was measured with, one seed.

    Cases in real time are left out: the profile is that of the deterministic guest.
    """
    found = {run.case: run.conditions for run in result.runs}
    cases = tuple(
        _like(case, found[case.id])
        for case in result.definition.cases
        if case.id in found and case.guest is not None and case.guest.clock == "deterministic"
    )
    if not cases:
        return None, None, ()
    ids = {case.id for case in cases}
    definition = result.definition.selected(cases=sorted(ids))
    definition = needed_for_rows(replace(definition, cases=cases))
    manner = Wanted(1, wanted.seed, _GUEST_PROFILE, wanted.label, wanted.progress, keep_going=True)
    try:
        with closing(get_target("sim")) as place:
            sim, id_ = measure(definition, place, manner, store)
    except MqlabError as error:
        return None, None, (f"The sim was not measured: {error}.",)
    return sim, id_, ()


def _like(case: Case, conditions: Mapping[str, Scalar]) -> Case:
    own = {name: conditions[name] for name in ("hz", "cpus") if name in conditions and name in case.params}
    return replace(case, params={**case.params, **own})
