"""What --dry-run tells, with the kernels' plans made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mqlab
from mqlab import foreseeing
from mqlab.errors import UnsupportedError
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.plan import BuildPlan, BuildStep
from mqlab.kernels.request import KernelRequest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MQLAB_KERNEL", raising=False)


@pytest.fixture
def threads(tmp_path: Path) -> Path:
    for name in ("tags-srcu", "nvme-ns-remove", "plug-batch", "quiesce-rt"):
        (tmp_path / f"{name}.txt").write_text("a thread")
    return tmp_path


def plan(request: KernelRequest, cache: KernelCache | None = None) -> BuildPlan:
    base = BuildStep(f"build 7.3 ({request.fragment})", 1500, 600.0)
    patched = BuildStep(f"build it with {request.patches.file.stem if request.patches else ''}", 100, 60.0)
    return BuildPlan(None, (base, patched) if request.patches else (base,), ())


def test_it_tells_kernels_boots_what_is_left_out_and_the_time(
    threads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreseeing, "plan_build", plan)
    found = mqlab.forecast("tags-srcu", thread_files=threads)
    assert [k.source.rpartition(",")[2].rpartition("/")[2] for k in found.kernels] == [
        "source:7.3",
        "tags-srcu.txt#1",
        "2",
    ]
    # The unpatched tree is built once, whatever stands on it.
    assert [k.seconds for k in found.kernels] == [600.0, 60.0, 0.0]
    assert found.boots == {"tags-srcu": 11}
    assert found.seconds > 660
    reasons = dict(found.skipped)
    assert "outside ublk's mutex" in reasons["tags-srcu, ublk-4000-serial, before-put-outside"]
    assert "see `mqlab stress`" in reasons["tags-srcu, life-stress, before"]
    document = json.loads(json.dumps(found.to_dict()))
    assert document["schema"] == "mqlab.forecast/1"
    assert all(len(line) <= 75 for line in found.table().splitlines())


def test_real_time_cases_are_booted_for_each_of_their_runs(
    threads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreseeing, "plan_build", plan)
    assert mqlab.forecast("quiesce-rt", thread_files=threads).boots == {"quiesce-rt": 12}
    assert mqlab.forecast("quiesce-rt", thread_files=threads, runs=2).boots == {"quiesce-rt": 6}


def test_without_thread_files_the_patched_sides_say_what_to_give() -> None:
    found = mqlab.forecast("nvme-ns-remove")
    assert [(k.source, k.steps) for k in found.kernels] == [("debian:7.3-cloud", ("fetch it",))]
    assert found.boots == {"nvme-ns-remove": 4}
    assert "--thread-files" in dict(found.skipped)["nvme-ns-remove, tcp-64, series"]


def test_a_kernel_that_cannot_be_had_is_told_and_none_of_its_boots_counted(
    threads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: KernelRequest, cache: KernelCache | None = None) -> BuildPlan:
        raise UnsupportedError("there is no compiler", "install gcc")

    monkeypatch.setattr(foreseeing, "plan_build", refuse)
    found = mqlab.forecast("tags-srcu", thread_files=threads)
    assert found.boots == {}
    assert {k.refusal for k in found.kernels} == {"there is no compiler; install gcc"}
    assert "there is no compiler" in found.table()


def test_it_is_refused_for_what_boots_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    from mqlab.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "--dry-run"])
    assert ended.value.code == 2
    assert "give --target vm" in capsys.readouterr().err
