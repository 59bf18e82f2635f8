"""The workloads that read devices, each small, on a fetched kernel: exact counts, then irq threads."""

from __future__ import annotations

from typing import Any

import pytest

from mqlab.errors import UnsupportedError
from mqlab.kernels.find import find_kernel
from mqlab.vm.guest import GuestRun, GuestSetup
from mqlab.vm.initramfs import agent_path
from mqlab.vm.qemu import Machine, find_qemu

pytestmark = pytest.mark.slow

FETCHED = "debian:7.3-cloud"
BATCH = 32
HELD_BACK = (0, 48, 96)


def setup_of(machine: Machine, modules: tuple[str, ...]) -> GuestSetup:
    try:
        return GuestSetup(
            find_qemu(),
            machine,
            find_kernel(FETCHED),
            agent_path().read_bytes(),
            modules,
            limit_s=900.0,
        )
    except UnsupportedError as error:
        pytest.skip(str(error))


def job(workload: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"workload": workload, "spec": {"target": "device", "params": params}}


@pytest.fixture(scope="module")
def ublk_run() -> GuestRun:
    jobs = [job("ublk_random_reads", {"held_back": held, "ios": 4000}) for held in HELD_BACK]
    jobs.append(job("ublk_random_reads", {"held_back": 0, "ios": 100, "scheduler": "kyber"}))
    jobs.append(job("device_inventory", {}))
    return setup_of(Machine(cpus=1), ("ublk_drv",)).boot(jobs)


def done(run: GuestRun, number: int) -> dict[str, Any]:
    outcome: dict[str, Any] = run.report.result["jobs"][number]
    assert outcome["ok"], outcome
    return outcome


def test_a_ublk_disk_is_read_in_whole_batches(ublk_run: GuestRun) -> None:
    for number, held_back in enumerate(HELD_BACK):
        outcome = done(ublk_run, number)
        counters = outcome["counters"]
        assert counters["window_operations"] >= 4000
        assert counters["submissions"] == pytest.approx(counters["window_operations"] / BATCH, abs=4)
        # Only at its end, for the reader's last reads, does the server let go what it holds.
        assert counters["times_let_go"] == (1 if held_back else 0)
        assert outcome["samples"]["reads_per_s"][0] > 0


def test_the_more_is_held_back_the_more_tags_are_taken_alone(ublk_run: GuestRun) -> None:
    if ublk_run.counts is None:
        pytest.skip("; ".join(ublk_run.notes))
    calls = [
        ublk_run.counts.jobs[number].calls("__blk_mq_alloc_requests") for number in range(len(HELD_BACK))
    ]
    reads = [done(ublk_run, number)["counters"]["window_operations"] for number in range(len(HELD_BACK))]
    per_read = [called / read for called, read in zip(calls, reads, strict=True)]
    assert per_read[0] == pytest.approx(1 / BATCH, rel=0.05)  # each batch whole
    assert per_read[0] < per_read[1] < per_read[2] < 1


def test_a_scheduler_that_the_kernel_has_not_is_a_skip_and_leaves_no_device(ublk_run: GuestRun) -> None:
    refused = ublk_run.report.result["jobs"][3]
    assert not refused["ok"]
    assert refused["error"]["kind"] == "unsupported"
    assert "scheduler to kyber" in refused["error"]["message"]
    left = done(ublk_run, 4)
    assert all(value == 0 for name, value in left["counters"].items() if "ublk" in name), left


@pytest.fixture(scope="module")
def scsi_run() -> GuestRun:
    machine = Machine(
        cpus=2,
        clock="real",
        devices=("virtio-scsi:queues=2",),
        kernel_args=("threadirqs", "no_timer_check"),
    )
    load = {"threads": 2, "duration_ms": 300, "sample_every_ms": 20}
    jobs = [job("scsi_irq_load", load), job("scsi_irq_load", {**load, "driver": "megaraid_sas"})]
    return setup_of(machine, ("virtio_scsi", "sd_mod")).boot(jobs)


def test_a_scsi_disk_is_found_by_its_driver_and_its_irq_threads_are_looked_at(scsi_run: GuestRun) -> None:
    outcome = done(scsi_run, 0)
    counters = outcome["counters"]
    looks = outcome["samples"]["irq_threads_in_d"]
    assert counters["irq_threads"] >= 2
    assert counters["looks"] == len(looks) > 0
    assert counters["irq_threads_in_d_max"] == max(looks)
    assert counters["window_operations"] > 0
    assert outcome["samples"]["mb_per_s"][0] > 0


def test_a_disk_that_is_not_there_is_named_with_those_that_are(scsi_run: GuestRun) -> None:
    error = scsi_run.report.result["jobs"][1]["error"]
    assert error["kind"] == "unsupported"
    assert "megaraid_sas (but of virtio_scsi)" in error["message"]
    assert error["remedy"]
