from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import pytest

from mqlab.errors import InternalError, UnsupportedError, UsageError
from mqlab.execution import carry_out
from mqlab.model import Experiment
from mqlab.planning import PlannedRun, make_plan
from mqlab.records import RunRecord, RunSamples, RunSpec
from mqlab.targets import Basis


class OwnTarget:
    """What a test makes of one run."""

    name: ClassVar[str] = "own"
    clock: ClassVar[str] = "no time"
    basis: ClassVar[Basis] = "predicted"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = False

    def __init__(self, samples: Sequence[float] = (1.0,)) -> None:
        self.samples = samples
        self.cancelled = threading.Event()
        self.started = threading.Event()
        self.seen: list[RunSpec] = []

    def run(self, spec: RunSpec) -> RunSamples:
        self.seen.append(spec)
        return RunSamples({"wait_ms": self.samples})

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        return


def plan(experiment: Experiment, runs: int = 2, seed: int = 1) -> tuple[PlannedRun, ...]:
    return make_plan(experiment, "own", runs, seed, None)


def test_the_plan_alternates_and_shares_seeds(waits: Experiment) -> None:
    planned = plan(waits, runs=2, seed=7)
    assert [p.order for p in planned] == list(range(8))
    short = [(p.variant, p.run, p.spec.seed) for p in planned if p.case == "short"]
    assert short == [("before", 0, 7), ("after", 0, 7), ("after", 1, 8), ("before", 1, 8)]


@pytest.mark.parametrize(("runs", "seed"), [(0, 1), (-1, 1), (10_001, 1), (1, -1), (True, 1), (1, 2**63)])
def test_absurd_counts_are_refused(waits: Experiment, runs: int, seed: int) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        plan(waits, runs, seed)


def test_runs_come_back_in_the_order_of_the_plan_and_progress_tells_of_each(waits: Experiment) -> None:
    seen: list[tuple[int, int]] = []
    handed: list[RunRecord] = []
    outcome = carry_out(
        plan(waits),
        OwnTarget(),
        on_run=handed.append,
        progress=lambda done, of, _what: seen.append((done, of)),
    )
    assert [r.order for r in outcome.runs] == list(range(8))
    assert sorted(r.order for r in handed) == list(range(8))
    assert seen == [(i, 8) for i in range(1, 9)]
    assert not outcome.interrupted
    assert not outcome.runs[0].samples["wait_ms"].flags.writeable


def test_what_a_target_cannot_do_is_skipped_once_and_the_rest_goes_on(waits: Experiment) -> None:
    class Unable(OwnTarget):
        def run(self, spec: RunSpec) -> RunSamples:
            if spec.variant == "after":
                raise UnsupportedError("no patched kernel", "build one")
            return super().run(spec)

    outcome = carry_out(plan(waits, 3), Unable())
    assert {(s.case, s.variant, s.reason, s.remedy) for s in outcome.skips} == {
        ("short", "after", "no patched kernel", "build one"),
        ("long", "after", "no patched kernel", "build one"),
    }
    assert {r.variant for r in outcome.runs} == {"before"}


def test_another_error_ends_the_plan_and_keeps_what_was_handed_on(waits: Experiment) -> None:
    class Broken(OwnTarget):
        workers: ClassVar[int] = 1

        def run(self, spec: RunSpec) -> RunSamples:
            if len(self.seen) == 2:
                raise InternalError("broken", "mend it")
            return super().run(spec)

    handed: list[RunRecord] = []
    with pytest.raises(InternalError, match="broken"):
        carry_out(plan(waits, 5), Broken(), on_run=handed.append)
    assert len(handed) == 2


@pytest.mark.parametrize("bad", [[float("nan")], [float("inf"), 1.0], ["five"], [[1.0], [2.0]]])
def test_samples_that_are_no_finite_numbers_are_refused(waits: Experiment, bad: Sequence[float]) -> None:
    with pytest.raises(InternalError, match="wait_ms holds"):
        carry_out(plan(waits), OwnTarget(bad))


def test_an_error_while_keeping_a_run_is_raised(waits: Experiment) -> None:
    def keep(_run: RunRecord) -> None:
        raise UsageError("disk full")

    with pytest.raises(UsageError, match="disk full"):
        carry_out(plan(waits), OwnTarget(), on_run=keep)


def test_ctrl_c_keeps_what_was_measured_and_asks_the_rest_to_end(waits: Experiment) -> None:
    class Slow(OwnTarget):
        def run(self, spec: RunSpec) -> RunSamples:
            if len(self.seen) >= 3:
                self.started.set()
                assert self.cancelled.wait(20)
                raise KeyboardInterrupt
            return super().run(spec)

    target = Slow()

    def interrupt() -> None:
        target.started.wait(20)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    threading.Thread(target=interrupt).start()
    start = time.monotonic()
    outcome = carry_out(plan(waits, 50), target)
    assert outcome.interrupted
    assert 3 <= len(outcome.runs) < 10
    assert time.monotonic() - start < 20
    assert signal.getsignal(signal.SIGINT) is before


def test_it_runs_in_a_thread_that_is_not_the_main_one(waits: Experiment) -> None:
    runs: list[int] = []
    thread = threading.Thread(target=lambda: runs.append(len(carry_out(plan(waits), OwnTarget()).runs)))
    thread.start()
    thread.join(20)
    assert runs == [8]
