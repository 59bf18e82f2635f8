"""From an experiment and a target to a stored result: what running and reproducing have in common."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mqlab import _core
from mqlab.errors import UsageError
from mqlab.execution import Progress, carry_out
from mqlab.guest import KERNEL_TARGET
from mqlab.model import Case, Experiment
from mqlab.parameters import did_you_mean
from mqlab.planning import make_plan
from mqlab.profiles import load_profile
from mqlab.progress import progress_bar
from mqlab.records import ResultRecord, RunRecord
from mqlab.result import Result
from mqlab.store import Store, open_store_at
from mqlab.targets import Target, manner_of

__all__ = ["OpenedStore", "Wanted", "check_policies", "measure", "needed_for_rows"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How something is measured. `runs` None is what the target does by default, case by case.

    With `keep_going` a run that fails becomes a skip with the reason.
    """

    runs: int | None = None
    seed: int = 1
    profile: str = "published"
    label: str = ""
    progress: Progress | bool = True
    keep_going: bool = False


def measure(
    experiment: Experiment, target: Target, wanted: Wanted, store: Store | None
) -> tuple[Result, int | None]:
    """Runs all of the experiment and keeps each run at once; the result and its id in the store."""
    profile = load_profile(wanted.profile) if target.uses_profile else None

    def runs_of(case: Case) -> int:
        return manner_of(target, case).default_runs if wanted.runs is None else wanted.runs

    plan = make_plan(experiment, target.name, runs_of, wanted.seed, profile)
    record = ResultRecord(
        experiment,
        target.name,
        wanted.seed,
        datetime.now(UTC),
        _core.version(),
        _clock(experiment, target),
        label=wanted.label,
        profile=profile.name if profile else "",
        partial=True,
    )
    id_ = store.begin(record) if store is not None else None

    def keep(done: RunRecord) -> None:
        if store is not None and id_ is not None:
            store.add_run(id_, experiment, done)

    with progress_bar(wanted.progress, experiment.id) as shown:
        outcome = carry_out(plan, target, on_run=keep, progress=shown, keep_going=wanted.keep_going)
    if store is not None and id_ is not None:
        store.finish(id_, outcome.skips, outcome.interrupted)
    record = replace(record, runs=outcome.runs, skips=outcome.skips, partial=outcome.interrupted)
    return Result(record), id_


def _clock(experiment: Experiment, target: Target) -> str:
    """Of the cases that the target does, or of all where it does none."""
    done = [c for c in experiment.cases if c.guest is not None or target.name != KERNEL_TARGET]
    return " and ".join(dict.fromkeys(manner_of(target, case).clock for case in done or experiment.cases))


def check_policies(experiment: Experiment) -> None:
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


def needed_for_rows(experiment: Experiment) -> Experiment:
    """Only the cases and variants that a published row is measured by or a curve is drawn from."""
    sides: dict[str, set[str]] = {}
    for row in experiment.rows:
        sides.setdefault(row.case, set()).update({row.before} - {""})
        sides.setdefault(row.after_case or row.case, set()).update({row.after} - {""})
    for curve in experiment.curves:
        for case_id in curve.cases:
            sides.setdefault(case_id, set()).update({curve.before, curve.after})
    cases = tuple(
        replace(case, variants=tuple(v.id for v in experiment.variants if v.id in sides[case.id]))
        for case in experiment.cases
        if sides.get(case.id)
    )
    return experiment.with_cases(cases)


class OpenedStore:
    """The store to write to: opened here, and closed again only if so. False is no store, None the user's."""

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
