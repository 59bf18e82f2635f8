"""A boot's end in every form, with a stand-in for QEMU that writes a console."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.errors import TimeoutError_
from mqlab.vm.boot import GuestError, GuestReport, boot_guest, find_trouble
from mqlab.vm.qemu import Machine, Qemu

Sender = Callable[..., list[str]]
RESULT = {"format": "mqlab.agent/1", "jobs": [], "machine": {}}


def boot(tmp_path: Path, lines: list[str], tail: str = "", limit_s: float = 20.0) -> GuestReport:
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
    return boot_guest(Qemu(program, "0"), Machine(), Path("image"), b"", limit_s=limit_s)


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


def test_a_guest_that_hangs_is_ended_in_time(tmp_path: Path, sent: Sender) -> None:
    begin = time.monotonic()
    with pytest.raises(TimeoutError_, match="in: quiet"):
        boot(tmp_path, sent("stage", 0, {"stage": "quiet"}), tail="exec sleep 60", limit_s=0.5)
    assert time.monotonic() - begin < 10


def test_a_cancelled_boot_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path / 'pid'}\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        boot_guest(Qemu(program, "0"), Machine(), Path("i"), b"", is_cancelled=(tmp_path / "pid").exists)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_healthy_log_is_no_trouble() -> None:
    assert find_trouble("[ 0.1] Spectre V2 : Mitigation: Retpolines\n[ 0.2] debug: BUGS=0") is None


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
