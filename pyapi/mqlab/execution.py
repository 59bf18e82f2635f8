"""Carries out a plan on a target: worker threads, progress, and a Ctrl-C that keeps what was measured."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Final

from mqlab.errors import InternalError, MqlabError, UnsupportedError
from mqlab.planning import PlannedRun
from mqlab.records import RunRecord, RunSamples, Skip
from mqlab.targets import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Outcome", "Progress", "carry_out"]

# Called after each run that ended or was skipped: (done, planned, what was done).
Progress = Callable[[int, int, str], None]
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan: its runs and skips in the order of the plan."""

    runs: tuple[RunRecord, ...]
    skips: tuple[Skip, ...]
    interrupted: bool


@dataclass(slots=True)
class _Done:
    planned: PlannedRun
    started: datetime
    samples: RunSamples | None = None
    error: BaseException | None = None


def carry_out(
    plan: Sequence[PlannedRun],
    target: Target,
    *,
    on_run: Callable[[RunRecord], None] | None = None,
    progress: Progress | None = None,
    keep_going: bool = False,
) -> Outcome:
    """Does the runs of `plan` and hands each to `on_run` as soon as it is there.

    `on_run` and `progress` are called in the calling thread only. A case that the target cannot do becomes
    a Skip; any other error ends the plan and is raised once the runs under way are in, or with `keep_going`
    becomes a Skip as well if it is a run's (an error of `on_run` never does). Ctrl-C starts no
    further run, asks those under way to end, and returns what was measured; a second one ends the process
    at once.
    """
    return _Execution(plan, target, on_run, progress, keep_going).carry_out()


class _Execution:
    def __init__(
        self,
        plan: Sequence[PlannedRun],
        target: Target,
        on_run: Callable[[RunRecord], None] | None,
        progress: Progress | None,
        keep_going: bool,
    ) -> None:
        self._keep_going = keep_going
        self._plan = plan
        self._target = target
        self._on_run = on_run
        self._progress = progress
        self._pending: queue.SimpleQueue[PlannedRun | None] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[_Done] = queue.SimpleQueue()
        self._runs: dict[int, RunRecord] = {}
        self._skips: dict[tuple[str, str], Skip] = {}
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._interrupted = threading.Event()

    def carry_out(self) -> Outcome:
        for planned in self._plan:
            self._pending.put(planned)
        count = max(1, min(self._target.workers, os.cpu_count() or 1, len(self._plan)))
        threads = [
            threading.Thread(target=self._work, name=f"mqlab-run-{i}", daemon=True) for i in range(count)
        ]
        for _ in threads:
            self._pending.put(None)
        with self._interruptible():
            for thread in threads:
                thread.start()
            self._collect(threads)
        if self._error is not None:
            raise self._error
        runs = tuple(self._runs[order] for order in sorted(self._runs))
        return Outcome(runs, tuple(self._skips.values()), self._interrupted.is_set())

    def _work(self) -> None:
        while not self._stop.is_set():
            planned = self._pending.get()
            if planned is None:
                return
            done = _Done(planned, datetime.now(UTC))
            if (planned.case, planned.variant) not in self._skips:
                try:
                    done.samples = self._target.run(planned.spec)
                except BaseException as error:
                    done.error = error
            self._finished.put(done)

    def _collect(self, threads: Sequence[threading.Thread]) -> None:
        done = 0
        while any(thread.is_alive() for thread in threads) or not self._finished.empty():
            if self._interrupted.is_set():
                self._target.cancel()
            try:
                item = self._finished.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            done += 1
            self._take(item)
            if self._progress:
                self._progress(done, len(self._plan), f"{item.planned.case}, {item.planned.variant}")

    def _take(self, done: _Done) -> None:
        key = (done.planned.case, done.planned.variant)
        if isinstance(done.error, UnsupportedError):
            self._skips.setdefault(key, _skip(done.planned, done.error))
        elif isinstance(done.error, KeyboardInterrupt):
            self._interrupted.set()
            self._stop.set()
        elif self._keep_going and isinstance(done.error, Exception):
            self._skips.setdefault(key, _skip(done.planned, done.error))
        elif done.error is not None:
            self._fail(done.error)
        elif done.samples is not None:
            try:
                record = make_record(done.planned, done.started, done.samples)
                if self._on_run:
                    self._on_run(record)
            except BaseException as error:
                self._fail(error)
            else:
                self._runs[done.planned.order] = record

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._stop.set()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            if self._interrupted.is_set():
                os._exit(130)
            self._interrupted.set()
            self._stop.set()

        previous = signal.signal(signal.SIGINT, on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


def _skip(planned: PlannedRun, error: Exception) -> Skip:
    if isinstance(error, UnsupportedError):
        return Skip(planned.variant, planned.case, error.message, error.remedy)
    if isinstance(error, MqlabError):
        # A guest that broke is told with its kernel's report, whose first line says what it is.
        said = ": ".join(error.message.splitlines()[:2])
        return Skip(planned.variant, planned.case, f"the run failed: {said}", error.remedy)
    what = f"the run failed: {type(error).__name__}: {error}"
    return Skip(planned.variant, planned.case, what, "report it")


def make_record(planned: PlannedRun, started: datetime, given: RunSamples) -> RunRecord:
    """The record of a run; refuses samples that are empty, no numbers, or not finite."""
    return RunRecord(
        planned.variant,
        planned.case,
        planned.run,
        planned.order,
        planned.spec.seed,
        started,
        {name: _series(name, values, planned) for name, values in given.samples.items()},
        {name: int(count) for name, count in given.counters.items()},
        tuple(given.notes),
        dict(given.conditions),
        dict(given.fingerprint),
        given.dmesg,
    )


def _series(name: str, values: Iterable[float], planned: PlannedRun) -> NDArray[np.float64]:
    import numpy as np

    where = f"{planned.spec.workload} (case {planned.case}, variant {planned.variant}): {name}"
    try:
        series = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InternalError(f"{where} holds what is no number", "mend the workload") from None
    if series.ndim != 1 or not np.isfinite(series).all():
        raise InternalError(f"{where} holds a value that is not finite", "mend the workload")
    series.setflags(write=False)
    return series
