"""A fetched Debian kernel, booted small: what `mqlab run tags-srcu --target vm` stands on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mqlab.errors import TimeoutError_, UnsupportedError
from mqlab.guest import Guest
from mqlab.records import RunSamples, RunSpec
from mqlab.targets import get_target
from mqlab.targets.vm import VmTarget

LIFE = Guest(
    "ublk_lifecycle",
    {"del_dev_ms": "del_dev_ns", "delete_total_ms": "delete_total_ns"},
    params={"mode": "life"},
    takes=("devices", "threads", "queues", "depth"),
    modules=("ublk_drv",),
)
SPEC = RunSpec(
    workload="ublk_delete",
    target="vm",
    seed=1,
    params={"hz": 1000, "cpus": 2, "devices": 12, "threads": 4, "queues": 1, "depth": 16},
    policies={},
    guest=LIFE,
)


@pytest.fixture(scope="module")
def target() -> VmTarget:
    """The target with QEMU, kernel and agent found, or a skip with the reason."""
    made = get_target("vm")
    assert isinstance(made, VmTarget)
    try:
        made.prepare()
        made.kernels.for_spec(SPEC)
    except UnsupportedError as error:
        pytest.skip(str(error))
    return made


@pytest.fixture(scope="module")
def two_boots(target: VmTarget) -> list[RunSamples]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(target.run, [SPEC, SPEC]))


@pytest.mark.slow
def test_two_boots_give_the_same_bytes(two_boots: list[RunSamples]) -> None:
    first, second = two_boots
    assert first.samples == second.samples
    assert first.counters == second.counters
    assert first.dmesg == second.dmesg
    assert first.fingerprint == second.fingerprint


@pytest.mark.slow
def test_every_step_of_a_life_is_timed_alone(two_boots: list[RunSamples]) -> None:
    samples = two_boots[0].samples
    for name in ("add_dev_ms", "start_dev_ms", "stop_dev_ms", "close_dev_ms", "del_dev_ms"):
        assert len(samples[name]) == 12
        assert min(samples[name]) > 0
    assert len(samples["delete_total_ms"]) == 1
    assert samples["delete_total_ms"][0] > max(samples["del_dev_ms"])
    whole_ns = [value * 1e6 for value in samples["del_dev_ms"]]
    assert all(abs(value - round(value)) < 1e-3 for value in whole_ns)


@pytest.mark.slow
def test_a_delete_waits_for_a_grace_period_of_that_kernels_jiffies(two_boots: list[RunSamples]) -> None:
    hz = two_boots[0].conditions["hz"]
    assert isinstance(hz, int)
    # Four jiffies; the first may begin in the middle of one.
    assert min(two_boots[0].samples["del_dev_ms"]) >= 3 * 1000 / hz


@pytest.mark.slow
def test_the_kernel_is_told_as_it_was_found(two_boots: list[RunSamples]) -> None:
    run = two_boots[0]
    assert str(run.conditions["kernel"]).startswith("7.3.")
    assert run.fingerprint["kernel"] == run.conditions["kernel"]
    assert run.fingerprint["accel"] == "tcg"
    assert "Linux version 7.3." in run.dmesg
    assert run.counters["quiet_wait_ns"] > 0
    assert any("HZ" in note for note in run.notes)


def test_a_variant_that_is_a_patched_kernel_asks_for_the_patches(target: VmTarget) -> None:
    with pytest.raises(UnsupportedError) as caught:
        target.run(replace(SPEC, variant="patch-1", thread="tags-srcu", patches=(1,)))
    assert "patch-1 is the kernel with patch 1 of the thread tags-srcu" in caught.value.message
    assert "--thread-files" in caught.value.remedy


def test_a_variant_that_no_kernel_is_says_why(target: VmTarget) -> None:
    with pytest.raises(UnsupportedError, match="nobody wrote it"):
        target.run(replace(SPEC, variant="spared", patches=None, kernel_reason="nobody wrote it"))


def test_a_case_that_no_guest_does_says_why(target: VmTarget) -> None:
    with pytest.raises(UnsupportedError, match="nothing holds one"):
        target.run(replace(SPEC, guest=None, case="iterator", kernel_reason="nothing holds one"))
    with pytest.raises(UnsupportedError, match="the agent of a guest has no workload for null_blk_destroy"):
        target.run(replace(SPEC, guest=None, workload="null_blk_destroy"))


@pytest.mark.slow
def test_a_command_that_takes_too_long_comes_back_with_its_name(target: VmTarget) -> None:
    params = {"devices": 1, "threads": 1, "queues": 1, "depth": 1, "cpus": 1}
    impatient = replace(LIFE, params={"mode": "life", "limit_ms": 1})
    with pytest.raises(TimeoutError_) as caught:
        target.run(replace(SPEC, params=params, guest=impatient))
    assert "of device 0 got no answer from the kernel within 1 ms" in caught.value.message
    assert caught.value.remedy


def test_without_qemu_the_run_is_skipped_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from mqlab.vm import qemu

    monkeypatch.setenv("PATH", "/nonexistent")
    qemu.find_qemu.cache_clear()
    try:
        with pytest.raises(UnsupportedError) as caught:
            VmTarget().run(SPEC)
    finally:
        qemu.find_qemu.cache_clear()
    assert "qemu-system-x86_64 is not installed" in caught.value.message
    assert "qemu-system-x86" in caught.value.remedy
