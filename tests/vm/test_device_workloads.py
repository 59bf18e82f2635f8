"""The workloads on real devices, each small, in one boot of a fetched kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mqlab.errors import UnsupportedError
from mqlab.kernels.find import find_kernel
from mqlab.vm.boot import GuestReport, boot_guest
from mqlab.vm.initramfs import agent_path, build, spec_document
from mqlab.vm.modules import load_order
from mqlab.vm.qemu import Machine, find_qemu

pytestmark = pytest.mark.slow

FETCHED = "debian:7.3-cloud"

# nvme_loop is left out, so that a target over loop fails when all but its port has been made.
MODULES = ["ublk_drv", "null_blk", "nvmet", "nvmet_tcp", "nvme_tcp", "mq_deadline", "kyber_iosched"]

JOBS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ublk": ("ublk_lifecycle", {"devices": 6, "threads": 2, "mode": "life"}),
    "ublk-async": ("ublk_lifecycle", {"devices": 3, "mode": "life", "del_async": True}),
    "null_blk": ("null_blk_lifecycle", {"devices": 6, "threads": 2, "depth": 16}),
    "null_blk-rmdir": ("null_blk_lifecycle", {"devices": 2, "destroy_by": "rmdir", "queues": 0}),
    "null_blk-too-many-queues": ("null_blk_lifecycle", {"devices": 2, "queues": 64}),
    "nvmet": ("nvmet_disconnect", {"namespaces": 3, "queues": 2}),
    "nvmet-without-transport": ("nvmet_disconnect", {"namespaces": 3, "transport": "loop"}),
    "stress": ("device_stress", {"seconds": 4, "threads": 6}),
    "left": ("device_inventory", {}),
}


@pytest.fixture(scope="module")
def report() -> GuestReport:
    try:
        kernel = find_kernel(FETCHED)
        qemu = find_qemu()
    except UnsupportedError as error:
        pytest.skip(str(error))
    modules = load_order(kernel.modules, MODULES) if kernel.modules else []
    jobs = [
        {"workload": workload, "spec": {"target": "device", "params": dict(params)}}
        for workload, params in JOBS.values()
    ]
    document = spec_document(jobs, modules, module_params={"null_blk": "nr_devices=0"})
    agent = agent_path().read_bytes()
    return boot_guest(qemu, Machine(cpus=2), kernel.image, build(agent, document, modules), limit_s=900.0)


def job_of(report: GuestReport, name: str) -> dict[str, Any]:
    return dict(report.result["jobs"][list(JOBS).index(name)])


def done(report: GuestReport, name: str) -> dict[str, Any]:
    job = job_of(report, name)
    assert job["ok"], job
    return job


def test_ublk_devices_are_deleted_with_and_without_waiting(report: GuestReport) -> None:
    for name, devices in (("ublk", 6), ("ublk-async", 3)):
        job = done(report, name)
        for sample in ("add_dev_ns", "start_dev_ns", "stop_dev_ns", "close_dev_ns", "del_dev_ns"):
            assert len(job["samples"][sample]) == devices
            assert min(job["samples"][sample]) > 0
        assert job["counters"]["window_operations"] == devices


def test_null_blk_devices_are_destroyed_by_switching_off_or_by_rmdir(report: GuestReport) -> None:
    samples = done(report, "null_blk")["samples"]
    assert len(samples["create_ns"]) == len(samples["destroy_ns"]) == 6
    for whole, off, removed in zip(
        samples["destroy_ns"], samples["power_off_ns"], samples["remove_ns"], strict=True
    ):
        # Nothing else is in it but the two calls.
        assert off + removed <= whole <= 1.1 * (off + removed)
    assert samples["destroy_total_ns"][0] >= max(samples["destroy_ns"])
    assert done(report, "null_blk-rmdir")["counters"]["queues"] == 2  # 0 asks for one a CPU
    by_rmdir = done(report, "null_blk-rmdir")["samples"]
    assert "power_off_ns" not in by_rmdir
    # Either way the queue is frozen and a grace period passes.
    assert min(by_rmdir["destroy_ns"]) > min(samples["power_off_ns"]) / 4


def test_more_queues_than_cpus_are_refused_before_the_kernel_changes_them(report: GuestReport) -> None:
    error = job_of(report, "null_blk-too-many-queues")["error"]
    assert error["kind"] == "usage"
    assert "64" in error["message"]
    assert "1 to 2" in error["remedy"]


def test_a_controller_goes_with_all_its_namespaces(report: GuestReport) -> None:
    job = done(report, "nvmet")
    (connect,) = job["samples"]["connect_ns"]
    (ready,) = job["samples"]["connect_ready_ns"]
    (disconnect,) = job["samples"]["disconnect_ns"]
    assert 0 < connect < ready
    # One after the other, each waits for more than one grace period of several jiffies.
    assert disconnect > 3 * 4_000_000
    assert job["counters"]["window_operations"] == 3
    assert report.dmesg.count("Removing ctrl") == 1


def test_what_fails_when_all_but_the_port_is_made_tells_the_module(report: GuestReport) -> None:
    error = job_of(report, "nvmet-without-transport")["error"]
    assert error["kind"] == "unsupported"
    assert "nvme-loop" in error["remedy"]


def test_a_stress_run_covers_every_kind_of_operation(report: GuestReport) -> None:
    job = done(report, "stress")
    counters = job["counters"]
    assert counters["not_covered"] == 0, job["notes"]
    assert counters["unexpected"] == 0, job["notes"]
    assert counters["done:create_ublk"] == counters["done:delete_ublk"] > 0
    assert counters["done:create_null_blk"] == counters["done:delete_null_blk"] > 0
    assert counters["done:cpu_offline"] == counters["done:cpu_online"] > 0


def test_nothing_is_left_of_any_of_them(report: GuestReport) -> None:
    job = done(report, "left")
    assert job["samples"]["devices_count"] == [0], job["notes"]
