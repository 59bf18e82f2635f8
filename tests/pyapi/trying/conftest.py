"""A kernel that builds in a second, and a guest that answers by what its image holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))

from small_kernel import make_small_kernel

from mqlab.errors import UnsupportedError, UsageError
from mqlab.model import Case
from mqlab.records import RunSamples, RunSpec
from mqlab.targets import Basis, Manner
from mqlab.trying.target import TrialKernels
from mqlab.vm.boot import GuestError

EXPERIMENT = '''
import mqlab
from mqlab.guest import Guest

GUEST = Guest("waiting", {"wait_ms": "wait_ns"}, takes=("devices", "threads"))
SLOW = Guest("waiting", {"wait_ms": "wait_ns"}, clock="real", why_real="a disk", devices=("nvme",))

@mqlab.experiment
def waits():
    """How long is the wait?"""
    return mqlab.Experiment(
        id="waits",
        title="waiting",
        variants=(mqlab.Variant("before", "", {}),),
        cases=(
            mqlab.Case("exact-4000", "wait", {"devices": 4000, "threads": 1}, guest=GUEST),
            mqlab.Case("timed", "wait", {"devices": 10, "threads": 1}, guest=SLOW),
            mqlab.Case("modelled", "wait", {"devices": 10, "threads": 1}),
        ),
        metrics=(mqlab.Metric("wait_ms", "ms", "lower"),),
        parameters=(mqlab.Parameter("devices", "devices", "", 1, 5000),
                    mqlab.Parameter("threads", "threads", "", 1, 64)),
        code=("block/*",),
    )
'''


@dataclass
class PlayedTarget:
    """Answers by the side; `behave` may raise, or return a wait in ms."""

    kernels: TrialKernels
    behave: Callable[[RunSpec], float]
    seen: list[tuple[str, str, int]] = field(default_factory=list)
    name: ClassVar[str] = "vm"
    clock: ClassVar[str] = "played"
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 1
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = False

    def manner(self, case: Case) -> Manner:
        if case.guest is not None and case.guest.clock == "real":
            return Manner("real time", False, 4)
        return Manner("exact", True, 1)

    def run(self, spec: RunSpec) -> RunSamples:
        kernel = self.kernels.for_spec(spec)
        self.seen.append((spec.case, spec.variant, spec.seed))
        wait = self.behave(spec)
        return RunSamples({"wait_ms": [wait]}, {}, (), {"kernel": kernel.release}, {"target": "vm"})

    def cancel(self) -> None:
        return

    def close(self) -> None:
        return


@dataclass
class Stage:
    """Where a trial is played: the repository, a file with the experiment, and how the guests behave."""

    repository: Path
    experiment: str
    folder: Path
    behave: Callable[[RunSpec], float]
    targets: list[PlayedTarget] = field(default_factory=list)

    def make(self, kernels: TrialKernels) -> PlayedTarget:
        self.targets.append(PlayedTarget(kernels, lambda spec: self.behave(spec)))
        return self.targets[-1]


def oops(spec: RunSpec) -> float:
    """A series that dies where base does not."""
    if spec.variant == "series" and spec.case.startswith("exact"):
        text = "BUG: kernel NULL pointer dereference, address: 0000\nRIP: 0010:blk_mq_free_tag_set+0x10/0x20"
        raise GuestError("the guest's kernel broke (oops) in: the workload", "", text)
    return 4.0


def no_device(_spec: RunSpec) -> float:
    raise UnsupportedError("no such device", "plug one in")


def unknown_workload(spec: RunSpec) -> float:
    if spec.case.startswith("exact"):
        raise UsageError("in the guest: unknown workload 'x'", "")
    return 4.0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "waits.py").write_text(EXPERIMENT)
    made = Stage(
        make_small_kernel(tmp_path / "linux"),
        str(tmp_path / "waits.py"),
        tmp_path,
        lambda spec: 4.0 if spec.variant == "base" else 1.0,
    )
    monkeypatch.setattr("mqlab.trying.work.make_target", made.make)
    return made
