"""Published rows on real kernels, by a target named vm that makes the figures up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

import pytest

import mqlab
from mqlab import targets
from mqlab.discovery import find_experiment
from mqlab.errors import SystemCallError, UnsupportedError
from mqlab.measuring import needed_for_rows
from mqlab.model import Case
from mqlab.records import RunSamples, RunSpec
from mqlab.reproduction import ReproductionRow
from mqlab.targets import Basis, Manner
from mqlab.targets.vm import VmTarget

CONDITIONS = {"kernel": "7.3.4", "hz": 1000, "cpus": 2}


class MadeUp:
    """DEL_DEV takes 4 ms before and 0.05 after; more than that is as `change` wants it."""

    name: ClassVar[str] = "vm"
    clock: ClassVar[str] = "deterministic guest clock"
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = False

    def __init__(self, change: Callable[[RunSpec], RunSamples | None] = lambda _spec: None) -> None:
        self._change = change
        self._lock = threading.Lock()
        self.ran: list[tuple[str, str]] = []

    def manner(self, case: Case) -> Manner:
        real = case.guest is not None and case.guest.clock == "real"
        return Manner("real time" if real else self.clock, not real, 4 if real else 1)

    def run(self, spec: RunSpec) -> RunSamples:
        if spec.guest is None or spec.patches is None:
            raise UnsupportedError(f"no kernel is {spec.variant}: {spec.kernel_reason}", "take the sim")
        with self._lock:
            self.ran.append((spec.case, spec.variant))
        changed = self._change(spec)
        if changed is not None:
            return changed
        values = {
            "del_dev_ms": 4.0 if not spec.patches else 0.05,
            "delete_total_ms": 18000.0,
            "destroy_total_ms": 1.0,
        }
        values["calls_per_op:srcu_barrier"] = 0.0 if spec.patches else 1.0
        return RunSamples({name: [value] for name, value in values.items()}, conditions=CONDITIONS)

    def cancel(self) -> None:
        return

    def close(self) -> None:
        return


@pytest.fixture
def without_sim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sim is tested elsewhere, and takes seconds."""
    from mqlab import reproducing

    monkeypatch.setattr(reproducing, "_sim_like", lambda *_a: (None, None, ()))


def rows_of(target: MadeUp, id_: str, **options: Any) -> dict[str, ReproductionRow]:
    found = mqlab.reproduce(id_, target=target, store=False, progress=False, **options)
    return {row.row: row for row in found.rows}


@pytest.mark.usefixtures("without_sim")
def test_each_row_is_measured_or_says_why_not() -> None:
    rows = rows_of(MadeUp(), "tags-srcu")
    assert (rows["del-dev-p50-serial"].measured_before, rows["del-dev-p50-serial"].measured_after) == (
        4.0,
        0.05,
    )
    assert {row.basis for row in rows.values()} == {"measured"}
    for row in rows.values():
        assert row.measured or (row.status == "skipped" and row.reason)
    follow_up = rows["followup-del-dev-p50-serial"]
    assert follow_up.status == "skipped"
    assert "drops the last reference of a ublk device outside" in follow_up.reason


@pytest.mark.usefixtures("without_sim")
def test_calls_stand_beside_the_time() -> None:
    rows = rows_of(MadeUp(), "tags-srcu")
    (pair, *_) = rows["del-dev-p50-serial"].counts
    assert (pair.metric, pair.before, pair.after) == ("calls_per_op:srcu_barrier", 1.0, 0.0)


@pytest.mark.usefixtures("without_sim")
def test_a_packaged_kernel_gives_before_alone_and_says_its_hz_and_what_to_give() -> None:
    def packaged(spec: RunSpec) -> RunSamples:
        if spec.patches:
            raise UnsupportedError("patch-1 is a patched kernel", "give --thread-files DIR")
        return RunSamples(
            {"del_dev_ms": [16.0]}, notes=("instructions are not counted: no plugin",),
            conditions={**CONDITIONS, "hz": 250},
        )  # fmt: skip

    row = rows_of(MadeUp(packaged), "tags-srcu")["del-dev-p50-serial"]
    assert (row.status, row.measured_before, row.measured_after) == ("half", 16.0, None)
    assert "give --thread-files DIR" in row.reason
    assert "the kernel has HZ 250, the row is told for 1000" in row.notes
    assert "instructions are not counted: no plugin" in row.notes


@pytest.mark.usefixtures("without_sim")
@pytest.mark.parametrize(("release", "said"), [("6.12.95", True), ("7.30.1", True), ("7.3-rc5", False)])
def test_a_kernel_of_another_release_is_told(release: str, said: bool) -> None:
    def other(_spec: RunSpec) -> RunSamples:
        return RunSamples({"del_dev_ms": [0.08]}, conditions={**CONDITIONS, "kernel": release})

    row = rows_of(MadeUp(other), "tags-srcu")["del-dev-p50-serial"]
    assert (f"the kernel is {release}, the thread is about 7.3" in row.notes) == said


@pytest.mark.usefixtures("without_sim")
def test_one_guest_that_breaks_is_one_row_that_says_so() -> None:
    def breaks(spec: RunSpec) -> RunSamples | None:
        if spec.case.startswith("null-blk") and spec.patches:
            raise SystemCallError(
                "the guest's kernel broke\nBUG: unable to handle page fault", "see the report"
            )
        return None

    rows = rows_of(MadeUp(breaks), "tags-srcu")
    broken = rows["null-blk-destroy-500-serial"]
    assert (broken.status, broken.measured_before, broken.measured_after) == ("half", 1.0 / 1000, None)
    assert "the run failed: the guest's kernel broke: BUG: unable to handle page fault" in broken.reason
    assert rows["delete-1000-serial"].measured_after is not None


@pytest.mark.usefixtures("without_sim")
def test_the_rows_of_plug_batch_are_those_of_the_merged_kernels() -> None:
    def shares(spec: RunSpec) -> RunSamples:
        values = {"allocations_per_io": 0.21 if spec.patches else 0.23, "partial_share": 0.1}
        return RunSamples({name: [value] for name, value in values.items()}, conditions=CONDITIONS)

    target = MadeUp(shares)
    rows = rows_of(target, "plug-batch")
    assert (rows["fewer-single-allocations"].measured_before, rows["fewer-single-allocations"].status) == (
        0.23,
        "met",
    )
    assert any("both sides ask again" in note for note in rows["fewer-single-allocations"].notes)
    assert "the SSD itself" in rows["gen4-iops"].reason
    assert {variant for _, variant in target.ran} == {"merged", "merged-patch"}


@pytest.mark.usefixtures("without_sim")
def test_real_time_rows_are_judged_over_runs_and_throughput_wants_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import os

    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    turn = {"before": iter([6, 7, 5, 7]), "patch": iter([0, 0, 0, 0]), "normal": iter([0] * 4)}

    def noisy(spec: RunSpec) -> RunSamples:
        waiting = float(next(turn[spec.variant]))
        said = ("disk sda", f"irq threads waited {waiting:.0f} times in blk_mq_run_hw_queue")
        samples = {"irq_threads_in_d": [0, waiting], "throughput_mb_s": [90.0]}
        return RunSamples(samples, notes=said if waiting else (), conditions=CONDITIONS)

    rows = rows_of(MadeUp(noisy), "quiesce-rt")
    in_d = rows["irq-threads-in-d"]
    assert (in_d.measured_before, in_d.measured_after, in_d.status) == (6.5, 0.0, "met")
    assert any("before 5.00 to 7.00" in note for note in in_d.notes)
    assert "before: irq threads waited 6 times in blk_mq_run_hw_queue" in in_d.notes
    throughput = rows["throughput"]
    assert (throughput.status, throughput.measured_before) == ("skipped", 90.0)
    assert throughput.reason == "it needs 8 CPUs that work at once, and this machine has 2"


def test_the_sim_stands_beside_with_the_guests_hz_and_cpus() -> None:
    found = mqlab.reproduce(
        "tags-srcu", target=MadeUp(), params={"devices": 4, "threads": 1}, store=True, progress=False
    )
    (row,) = (r for r in found.rows if r.row == "patch-1-brings-the-gain")
    assert row.sim_before is not None
    assert row.sim_after is not None
    assert row.sim_before > row.sim_after
    assert row.status == "skipped"
    (sim,) = (r for r in found.results if r.target == "sim")
    assert {case.params["cpus"] for case in sim.definition.cases} == {2}
    assert sim.record.profile == "guest"
    assert "real kernel" in found.table()
    with mqlab.open_store() as store:
        assert mqlab.load_reproduction(store, 1) == found


def test_a_kernel_is_refused_where_none_is_run() -> None:
    with pytest.raises(mqlab.MqlabError, match="the target sim runs no kernel of your choice"):
        mqlab.run("tags-srcu", target="sim", kernel="debian:6.12", store=False)


def test_options_reach_the_target_that_takes_them() -> None:
    given: list[dict[str, Any]] = []

    def make(**options: Any) -> MadeUp:
        given.append(options)
        return MadeUp()

    kept = targets._entries["vm"]
    targets.register_target("vm", make, "made up", ("kernel", "thread_files"))
    try:
        mqlab.run("tags-srcu", target="vm", kernel="image:/x", cases="ublk-1000-serial", store=False)
    finally:
        targets._entries["vm"] = kept
    assert given == [{"kernel": "image:/x"}]


@pytest.mark.parametrize("id_", ["tags-srcu", "nvme-ns-remove", "plug-batch", "quiesce-rt"])
@pytest.mark.parametrize("on_kernel", [False, True])
def test_what_the_rows_need_is_a_whole_experiment(id_: str, on_kernel: bool) -> None:
    """A row whose case on a real kernel is another one must not ask for that case in the sim."""
    experiment = find_experiment(id_)
    needed = needed_for_rows(experiment.on_kernel() if on_kernel else experiment)
    assert {row.case for row in needed.rows} <= {case.id for case in needed.cases}


@pytest.mark.usefixtures("without_sim")
def test_the_clock_told_is_that_of_the_cases_that_a_guest_does() -> None:
    """quiesce-rt has cases for schedules of the engine as well, which no guest does."""
    reproduction = mqlab.reproduce("quiesce-rt", target=MadeUp(), store=False, progress=False)
    assert {result.record.clock for result in reproduction.results} == {"real time"}


def test_a_figure_that_hangs_on_an_order_is_measured_with_several_seeds() -> None:
    with closing(VmTarget("image:/nowhere")) as target:
        runs = {c.id: target.manner(c) for c in find_experiment("plug-batch").cases if c.guest is not None}
        assert {(manner.default_runs, manner.deterministic) for manner in runs.values()} == {(4, True)}
        serial = find_experiment("tags-srcu").case("ublk-1000-serial")
        assert target.manner(serial).default_runs == 1
