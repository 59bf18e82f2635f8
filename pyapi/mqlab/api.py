"""What users call: run and reproduce experiments, list them, open the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqlab import _core
from mqlab.discovery import find_experiment, find_experiments
from mqlab.errors import UsageError
from mqlab.execution import Progress
from mqlab.guest import KERNEL_TARGET
from mqlab.measuring import OpenedStore, Wanted, check_policies, measure
from mqlab.model import Experiment
from mqlab.parameters import Scalar
from mqlab.published import load_thread, missing_figures
from mqlab.reproducing import reproduce_one, settable, thread_experiments
from mqlab.reproduction import Reproduction, ReproductionRow
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
    target: str | Target | None = "sim",
    kernel: str | None = None,
    thread_files: str | Path | None = None,
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
    that; it may be a target that was made already. `kernel` and `thread_files` are for real kernels: the one
    that variants without patches are, and the folder with the patches of the others. `store` is a store, its
    path or URL, None for the user's own and False for none. Ctrl-C raises Interrupted, a KeyboardInterrupt
    that holds what was measured.
    """
    whole = find_experiment(id)
    check_policies(whole)  # a policy may be known to the workload of a case that was not chosen
    wanted = Wanted(runs, seed, profile, label, progress)
    with _placed(default_target(whole) if target is None else target, kernel, thread_files) as place:
        seen = whole.on_kernel() if place.name == KERNEL_TARGET else whole
        experiment = seen.selected(variants, cases).with_settings(params or {})
        with OpenedStore(store) as kept:
            result, _ = measure(experiment, place, wanted, kept)
    if result.partial:
        raise Interrupted(result)
    return result


def reproduce(
    ids: Sequence[str] | str | None = None,
    *,
    target: str | Target = "sim",
    kernel: str | None = None,
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

    `thread_files` is a folder with the thread files: the published figures are checked against them, and on
    real kernels the patches are taken from them. `kernel` is what those are put on. `on_thread` is handed
    each thread's rows as soon as they are there.
    """
    experiments = thread_experiments([ids] if isinstance(ids, str) else ids)
    remarks = _check_figures(experiments, Path(thread_files)) if thread_files is not None else ()
    if params:
        remarks = (*remarks, "Set by the user: " + ", ".join(f"{k}={v}" for k, v in params.items()) + ".")
    wanted = Wanted(runs, seed, profile, label, progress, keep_going=True)
    parts: list[Reproduction] = []
    ids_: list[int] = []
    with OpenedStore(store) as kept, _placed(target, kernel, thread_files) as place:
        for experiment in experiments:
            check_policies(experiment)
            part, new = reproduce_one(settable(experiment, experiments, params or {}), place, wanted, kept)
            parts.append(part)
            ids_ += new
            if on_thread:
                on_thread(part)
            if part.partial:
                break
        reproduction = Reproduction(
            tuple(row for part in parts for row in part.rows),
            tuple(result for part in parts for result in part.results),
            remarks,
        )
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


def default_target(experiment: Experiment) -> str:
    """sim, or native for an experiment whose workloads are all Python functions that measure real time."""
    from mqlab.python_workloads import find_python_workload

    found = [find_python_workload(case.workload) for case in experiment.cases]
    return "native" if all(w is not None and "sim" not in w.targets for w in found) else "sim"


def _check_figures(experiments: Sequence[Experiment], folder: Path) -> tuple[str, ...]:
    return tuple(
        f"{experiment.thread}: the figures of {', '.join(missing)} do not stand in the thread file."
        for experiment in experiments
        if (missing := missing_figures(load_thread(experiment.thread), folder))
    )


def _save_reproduction(store: Store, reproduction: Reproduction, result_ids: Sequence[int]) -> int:
    rows = [row.to_dict() for row in reproduction.rows]
    return store.save_reproduction(datetime.now(UTC), _core.version(), rows, reproduction.remarks, result_ids)


@contextmanager
def _placed(target: str | Target, kernel: str | None, thread_files: str | Path | None) -> Iterator[Target]:
    """The target, closed afterwards if it was made here."""
    if not isinstance(target, str):
        if kernel:
            raise UsageError("a target that was made already has its kernel", "give the kernel to the target")
        yield target
        return
    files = Path(thread_files) if thread_files is not None else None
    with closing(get_target(target, kernel=kernel, thread_files=files)) as place:
        yield place
