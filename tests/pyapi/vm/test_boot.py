"""A boot's end in every form, with a stand-in for QEMU that writes a console."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.vm.boot import GuestError, GuestReport, GuestTimeoutError, boot_guest
from mqlab.vm.qemu import Machine, Qemu

Sender = Callable[..., list[str]]
RESULT = {"format": "mqlab.agent/1", "jobs": [], "machine": {}}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def boot(
    tmp_path: Path,
    lines: list[str],
    tail: str = "",
    limit_s: float = 20.0,
    machine: Machine = Machine(),  # noqa: B008 - it is immutable
) -> GuestReport:
    """Boots a shell script that says these lines on the serial line and ends."""
    console = tmp_path / "lines"
    console.write_text("\r\n".join(lines))
    program = tmp_path / "qemu"
    program.write_text(
        "#!/bin/sh\n"
        'while [ $# -gt 0 ]; do [ "$1" = -serial ] && out=${2#file:}; shift; done\n'
        f'cat {console} > "$out"\n{tail}\n'
    )
    program.chmod(0o755)
    return boot_guest(Qemu(program, "0"), machine, Path("image"), b"", limit_s=limit_s)


def test_a_boot_that_ends_well_gives_result_and_log(tmp_path: Path, sent: Sender) -> None:
    lines = [
        *sent("stage", 0, {"stage": "done"}),
        *sent("result", 1, RESULT),
        *sent("dmesg", 2, {"text": "hi"}),
    ]
    report = boot(tmp_path, lines)
    assert report.result == RESULT
    assert report.dmesg == "hi"


@pytest.mark.parametrize(
    "line",
    [
        "Kernel panic - not syncing: Attempted to kill init!",
        "BUG: KASAN: slab-use-after-free in blk_mq_free_tags+0x10/0x20",
        "WARNING: possible circular locking dependency detected",
        "INFO: task kworker/0:1:9 blocked for more than 120 seconds.",
        "BUG: kernel NULL pointer dereference, address: 0000000000000000",
    ],
)
def test_a_broken_kernel_fails_the_run_with_its_words(tmp_path: Path, sent: Sender, line: str) -> None:
    stamped = f"[    1.0] {line}"
    lines = [
        *sent("stage", 0, {"stage": "run"}),
        stamped,
        "[    1.1] Call Trace:",
        *sent("result", 1, RESULT),
    ]
    with pytest.raises(GuestError) as caught:
        boot(tmp_path, lines)
    assert caught.value.evidence.startswith(stamped)
    assert "Call Trace" in caught.value.evidence
    assert "run" in caught.value.message


def test_trouble_in_the_kernel_log_alone_counts_too(tmp_path: Path, sent: Sender) -> None:
    log = "<6>[ 1.0] fine\n<4>[ 2.0] WARNING: possible recursive locking detected\n<4>[ 2.0] more"
    with pytest.raises(GuestError):
        boot(tmp_path, [*sent("result", 1, RESULT), *sent("dmesg", 2, {"text": log})])


def test_an_end_without_a_result_shows_console_and_qemu(tmp_path: Path) -> None:
    with pytest.raises(GuestError) as caught:
        boot(tmp_path, ["last words"], tail="echo could not load kernel >&2; exit 1")
    assert "last words" in caught.value.evidence
    assert "could not load kernel" in caught.value.evidence
    assert "kernel's own start" in caught.value.message


def test_an_agent_that_failed_says_why(tmp_path: Path, sent: Sender) -> None:
    error = {"kind": "usage", "message": "the spec is bad", "remedy": "mend it", "errno": 0}
    with pytest.raises(GuestError, match="the spec is bad"):
        boot(tmp_path, sent("result", 0, {"error": error}))


def test_a_guest_that_does_nothing_is_ended_in_time(tmp_path: Path, sent: Sender) -> None:
    begin = time.monotonic()
    with pytest.raises(GuestTimeoutError, match=r"did nothing for 0 s; it was in: quiet"):
        boot(tmp_path, sent("stage", 0, {"stage": "quiet"}), tail="exec sleep 60", limit_s=0.5)
    assert time.monotonic() - begin < 30


def test_a_guest_that_spins_is_ended_by_its_cpu_time(tmp_path: Path, sent: Sender) -> None:
    lines = ["[ 1.0] BUG: soft lockup?", *sent("stage", 0, {"stage": "run"})]
    with pytest.raises(GuestTimeoutError, match=r"within 1 s of CPU time .* it was in: run") as caught:
        boot(tmp_path, lines, tail="while :; do :; done", limit_s=1)
    assert "soft lockup" in caught.value.evidence


def test_what_the_agent_found_hanging_is_told(tmp_path: Path, sent: Sender) -> None:
    error = {
        "kind": "timeout",
        "message": "asleep in the kernel:\n7 (x) in y < z",
        "remedy": "see",
        "errno": 0,
    }
    with pytest.raises(GuestTimeoutError, match=r"7 \(x\) in y < z"):
        boot(tmp_path, sent("result", 0, {"error": error}))


STALL = "rcu: INFO: rcu_preempt self-detected stall on CPU"


def test_a_stall_that_passed_in_real_time_is_a_note(tmp_path: Path, sent: Sender) -> None:
    report = boot(tmp_path, [STALL, *sent("result", 0, RESULT)], machine=Machine(cpus=9, clock="real"))
    assert "1 stalls that passed" in report.notes[0]
    assert "9 CPUs of the guest" in report.notes[0]


def test_a_stall_fails_a_deterministic_guest_and_one_that_never_ended(tmp_path: Path, sent: Sender) -> None:
    with pytest.raises(GuestError, match=r"broke \(stall\)"):
        boot(tmp_path, [STALL, *sent("result", 0, RESULT)])
    with pytest.raises(GuestError, match=r"broke \(stall\)") as caught:
        boot(tmp_path, [STALL], machine=Machine(clock="real"))
    assert "a broken kernel stalls on an idle machine" in caught.value.remedy


def test_all_that_a_failed_guest_said_is_kept(tmp_path: Path, sent: Sender) -> None:
    lines = [*sent("result", 0, RESULT), *sent("dmesg", 1, {"text": "early\nBUG: late"})]
    with pytest.raises(GuestError) as caught:
        boot(tmp_path, ["before", *lines])
    [kept] = (tmp_path / "cache/mqlab/failed-guests").iterdir()
    assert kept.read_text() == "before\nearly\nBUG: late"
    assert str(kept) in caught.value.message


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU: pinning cannot be seen")
def test_only_a_deterministic_guest_is_kept_on_one_cpu(tmp_path: Path, sent: Sender) -> None:
    for machine, cpus in ((Machine(), 1), (Machine(clock="real"), len(os.sched_getaffinity(0)))):
        boot(tmp_path, sent("result", 0, RESULT), tail=f"nproc > {tmp_path / 'cpus'}", machine=machine)
        assert int((tmp_path / "cpus").read_text()) == cpus


def test_a_cancelled_boot_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path / 'pid'}\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        boot_guest(Qemu(program, "0"), Machine(), Path("i"), b"", is_cancelled=(tmp_path / "pid").exists)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_the_command_line_holds_what_determinism_needs() -> None:
    machine = Machine(cpus=3, memory_mib=512, seed=9)
    options = machine.options(Path("/k"), Path("/i"), Path("/c"))
    text = " ".join(options)
    for part in (
        "-icount shift=0,sleep=off",
        "clock=vm",
        "-seed 9",
        "-cpu max,-rdrand,-rdseed",
        "-smp 3 -m 512M",
        "-nodefaults",
        "nokaslr",
        "norandmaps",
        "random.trust_cpu=off",
        "mqlab.init=1",
        "-serial file:/c",
    ):
        assert part in text
    assert not {"-device", "-drive", "-netdev"} & set(options)
    assert json.dumps(machine.facts())
