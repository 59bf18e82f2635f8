"""A metric across kernels, on a target that makes up a figure for each release."""

from __future__ import annotations

import dataclasses
import json
from typing import ClassVar

import pytest

import mqlab
from mqlab.errors import UnsupportedError, UsageError
from mqlab.guest import Guest
from mqlab.model import Experiment
from mqlab.records import RunSamples, RunSpec
from mqlab.targets import Basis, Target

RELEASES = {
    "debian:6.9": ("6.9.12", 8.0),
    "debian:6.10-rc1": ("6.10-rc1", 16.0),
    "debian:6.10": ("6.10.0", 16.0),
}


class KernelTarget:
    """One kernel, whose figure is known."""

    name: ClassVar[str] = "vm"
    clock: ClassVar[str] = "no time"
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 1
    default_runs: ClassVar[int] = 2
    uses_profile: ClassVar[bool] = False

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel

    def run(self, spec: RunSpec) -> RunSamples:
        if self._kernel == "debian:6.1":
            raise UnsupportedError("there is no /dev/ublk-control in 6.1.176", "take a kernel with ublk_drv")
        if self._kernel == "debian:6.8":
            raise ValueError("the guest went up in smoke")
        release, value = RELEASES[self._kernel]
        return RunSamples({"wait_ms": [value] * int(spec.params["count"])}, conditions={"kernel": release})

    def cancel(self) -> None:
        return

    def close(self) -> None:
        return


def make(kernel: str) -> Target:
    return KernelTarget(kernel)


@pytest.fixture
def in_guest(waits: Experiment) -> Experiment:
    before, after = waits.variants
    guest = Guest("waiting", {"wait_ms": "wait_ns"}, takes=("count",))
    return dataclasses.replace(
        waits,
        variants=(dataclasses.replace(before, patches=()), after),
        cases=tuple(dataclasses.replace(case, guest=guest) for case in waits.cases),
    )


KERNELS = ["debian:6.10", "debian:6.1", "debian:6.9", "debian:6.8", "debian:6.10-rc1"]


def test_kernels_stand_in_the_order_of_release_and_a_missing_feature_is_skipped(in_guest: Experiment) -> None:
    found = mqlab.matrix(in_guest, KERNELS, make_target=make)
    assert [p.release for p in found.points] == ["6.1", "6.8", "6.9.12", "6.10-rc1", "6.10.0"]
    assert [p.value for p in found.points] == [None, None, 8.0, 16.0, 16.0]
    assert found.points[0].reason == "there is no /dev/ublk-control in 6.1.176 (take a kernel with ublk_drv)"
    assert "the run failed: ValueError: the guest went up in smoke" in found.points[1].reason
    assert (found.case, found.variant, found.metric.name) == ("short", "before", "wait_ms")
    lines = found.table().splitlines()
    assert all(len(line) <= 75 and line.isascii() for line in lines)
    assert any(line.split() == ["6.10-rc1", "16.00", "16.00", "-", "16.00", "2.00"] for line in lines)
    assert any(line.startswith("    6.1: skipped: there is no /dev/ublk-control") for line in lines)


def test_it_is_one_document_one_frame_and_one_plot(in_guest: Experiment) -> None:
    found = mqlab.matrix(
        in_guest, KERNELS, case="long", metric="wait_ms", runs=1, params={"count": 3}, make_target=make
    )
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["schema"] == "mqlab.matrix/1"
    assert document["params"]["count"] == 3
    assert [k["value"] for k in document["kernels"]] == [None, None, 8.0, 16.0, 16.0]
    frame = found.frame()
    assert list(frame["release"]) == ["6.1", "6.8", "6.9.12", "6.10-rc1", "6.10.0"]
    labels = [text.get_text() for text in found.plot().axes[0].get_xticklabels()]
    assert labels == ["6.1", "6.8", "6.9.12", "6.10-rc1", "6.10.0"]
    assert "3 of 5 kernels" in repr(found)


def test_what_was_measured_is_stored(in_guest: Experiment) -> None:
    mqlab.matrix(in_guest, ["debian:6.9", "debian:6.10"], label="nightly", make_target=make)
    with mqlab.open_store() as store:
        assert [(r.target, r.label, r.runs) for r in store.results()] == [("vm", "nightly", 2)] * 2


@pytest.mark.parametrize(
    ("kernels", "options", "message"),
    [
        ([], {}, "no kernels were given"),
        ("debian:6.9", {}, "no kernels were given"),
        (["debian:6.9"], {"case": "shrt"}, "no case of waits is called 'shrt'"),
        (["debian:6.9"], {"metric": "wait"}, "has no metric 'wait'"),
    ],
)
def test_bad_input_is_refused(
    in_guest: Experiment, kernels: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        mqlab.matrix(in_guest, kernels, make_target=make, **options)  # type: ignore[arg-type]


def test_an_experiment_that_no_guest_does_is_refused(waits: Experiment) -> None:
    with pytest.raises(UsageError, match="no case of waits is done in a guest"):
        mqlab.matrix(waits, ["debian:6.9"], make_target=make)
