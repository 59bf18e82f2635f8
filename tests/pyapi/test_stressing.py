"""mqlab stress, on guests that are made up: what is covered, and what a report of the kernel does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import mqlab
from mqlab import stressing
from mqlab.errors import TimeoutError_, UnsupportedError, UsageError
from mqlab.kernels.kernel import Kernel
from mqlab.stressing import StressReport
from mqlab.vm.accel import Choice
from mqlab.vm.boot import GuestError, GuestReport, GuestTimeoutError
from mqlab.vm.guest import GuestSetup
from mqlab.vm.qemu import Qemu

KASAN = "BUG: KASAN: slab-use-after-free in bt_iter+0x1/0x2\nRead of size 8 at addr ffff8880 by task a/1"
Stage = Callable[[str], None]
COVERED = {
    "done": 852,
    "done:create_ublk": 840,
    "done:cpu_offline": 12,
    "expected": 3,
    "expected:create_ublk:EBUSY": 2,
    "expected:read_tags:ENOENT": 1,
    "unexpected": 1,
    "unexpected:cpu_offline:EIO": 1,
    "threads": 12,
}


@pytest.fixture(autouse=True)
def no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulator, agent and kernel that are never started."""
    agent, config = tmp_path / "agent", tmp_path / "config"
    agent.write_bytes(b"agent")
    config.write_text("CONFIG_KASAN=y\nCONFIG_PROVE_LOCKING=y\n")
    kernel = Kernel("source:7.3+debug", "7.3.4", "7.3.4-1", tmp_path / "bzImage", config=config)
    monkeypatch.delenv("MQLAB_KERNEL", raising=False)
    monkeypatch.setattr(stressing, "find_qemu", lambda: Qemu(Path("/qemu"), "7.2"))
    monkeypatch.setattr(stressing, "agent_path", lambda: agent)
    monkeypatch.setattr(stressing, "find_kernel", lambda _source, **_options: kernel)
    monkeypatch.setattr(stressing, "choose_accelerator", lambda *_a, **_o: Choice("tcg"))


def run(boot: Any, **options: Any) -> StressReport:
    return mqlab.stress(say=lambda _line: None, boot=boot, **options)


def gives(result: Mapping[str, Any]) -> Any:
    def boot(_setup: GuestSetup, _job: Mapping[str, Any], _on_stage: Stage) -> GuestReport:
        return GuestReport({"jobs": [result]}, "", "", 1.0)

    return boot


def fails(error: Exception, stage: str = "run") -> Any:
    def boot(_setup: GuestSetup, _job: Mapping[str, Any], on_stage: Stage) -> GuestReport:
        on_stage(stage)
        raise error

    return boot


def test_a_clean_run_tells_what_it_covered_and_with_which_checkers() -> None:
    report = run(gives({"ok": True, "counters": COVERED, "notes": ["no CPU can be unplugged"]}), seconds=60)
    assert report.clean
    assert report.covered == COVERED
    assert report.checkers == ("KASAN", "lockdep")
    table = report.table()
    assert "stress of 7.3.4, 60 s: no report" in table
    lines = [line.split() for line in table.splitlines()]
    assert ["create", "ublk", "840", "2"] in lines
    assert ["read", "tags", "0", "1"] in lines
    assert ["in", "all", "852", "3"] in lines
    assert "unexpected: cpu offline:EIO (1)" in table
    assert "checkers: KASAN, lockdep." in " ".join(table.split())
    assert json.loads(json.dumps(report.to_dict()))["clean"] is True


def test_the_guest_is_given_the_time_and_a_real_clock() -> None:
    seen: list[tuple[GuestSetup, Mapping[str, Any]]] = []

    def boot(setup: GuestSetup, job: Mapping[str, Any], _on_stage: Stage) -> GuestReport:
        seen.append((setup, job))
        return GuestReport({"jobs": [{"ok": True, "counters": {}}]}, "", "", 1.0)

    run(boot, seconds=30, cpus=2)
    ((setup, job),) = seen
    assert (setup.machine.clock, setup.machine.cpus) == ("real", 2)
    assert setup.guest_limit_s > 30
    assert setup.limit_s > 60
    assert job["workload"] == "device_stress"
    assert job["spec"]["params"]["seconds"] == 30


@pytest.mark.parametrize("kind", [GuestError, GuestTimeoutError])
def test_a_report_of_the_kernel_is_the_result(kind: Any) -> None:
    report = run(fails(kind("the guest's kernel broke", "see the report", KASAN, f"hello\n{KASAN}\n")))
    assert not report.clean
    assert "slab-use-after-free in bt_iter" in report.reports[0]
    assert "1 report of the kernel" in report.table()
    assert "BUG: KASAN" in report.table()


def test_a_guest_that_fails_without_a_report_is_an_error() -> None:
    with pytest.raises(GuestError):
        run(fails(GuestError("the guest ended without a result", "see QEMU", "nothing said")))
    with pytest.raises(UnsupportedError, match="no ublk here"):
        run(gives({"ok": False, "error": {"kind": "unsupported", "message": "no ublk here", "remedy": "x"}}))
    with pytest.raises(TimeoutError_, match="no answer"):
        run(gives({"ok": False, "error": {"kind": "timeout", "message": "no answer", "remedy": "x"}}))


def test_a_kernel_that_breaks_before_the_stress_is_no_finding_of_it() -> None:
    with pytest.raises(GuestError):
        run(fails(GuestError("the guest's kernel broke", "see", KASAN, KASAN), stage="modules"))


def test_what_a_panic_repeats_is_one_report() -> None:
    log = f"{KASAN}\n" + "\n".join(f"line {n}" for n in range(80)) + f"\n{KASAN}\n"
    report = run(fails(GuestError("broke", "see", KASAN, log)))
    assert len(report.reports) == 1
    assert "more lines, see --json" in report.table()


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": 1.5}, {"cpus": 0}])
def test_bad_sizes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        run(gives({"ok": True, "counters": {}}), **options)


def test_the_command_ends_with_1_when_the_kernel_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mqlab.cli import main

    def reported(*_a: Any, **_o: Any) -> StressReport:
        return StressReport("k", "7.3.4", 1, 1, "tcg", (), {}, (KASAN,))

    monkeypatch.setattr(stressing, "stress", reported)
    with pytest.raises(SystemExit) as ended:
        main(["stress", "--seconds", "1", "--json"])
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["reports"] == [KASAN]
