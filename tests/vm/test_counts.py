"""Counting what a guest executes changes none of its samples, and gives the same counts in every boot."""

from __future__ import annotations

import os

import pytest

from mqlab.errors import UnsupportedError
from mqlab.kernels.find import find_kernel
from mqlab.vm.guest import GuestRun, GuestSetup
from mqlab.vm.initramfs import agent_path
from mqlab.vm.qemu import Machine, find_qemu

JOB = {
    "workload": "ublk_lifecycle",
    "spec": {"target": "device", "seed": 1, "params": {"devices": 5, "threads": 1, "mode": "add_del"}},
}


@pytest.fixture(scope="module")
def setup() -> GuestSetup:
    try:
        kernel = find_kernel(os.environ.get("MQLAB_KERNEL") or "debian:7.3-cloud")
        return GuestSetup(find_qemu(), Machine(cpus=1), kernel, agent_path().read_bytes(), ("ublk_drv",))
    except UnsupportedError as error:
        pytest.skip(str(error))


def samples(run: GuestRun) -> object:
    [job] = run.report.result["jobs"]
    assert job["ok"], job
    return job["samples"]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_counts_repeat_themselves_and_leave_the_samples_as_they_are(setup: GuestSetup) -> None:
    counted = setup.boot([JOB], by_function=False)
    if counted.counts is None:
        pytest.skip(" ".join(counted.notes))
    again = setup.boot([JOB], by_function=False)
    plain = GuestSetup(
        setup.qemu, setup.machine, setup.kernel, setup.agent, setup.modules, counting=False
    ).boot([JOB])
    assert samples(counted) == samples(again) == samples(plain)
    assert plain.counts is None
    assert again.counts == counted.counts
    assert counted.counts.total_instructions > 100_000_000
    assert len(counted.counts.jobs) == 1
