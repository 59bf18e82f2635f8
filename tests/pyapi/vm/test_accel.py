"""The choice of an accelerator: by a boot, remembered, and honest about why it is not KVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.vm import accel
from mqlab.vm.accel import choose_accelerator
from mqlab.vm.qemu import Qemu

# Answers as an agent that has run its (no) jobs, and counts how often it was asked.
RUNS = """#!/bin/sh
echo x >> {counter}
case "$*" in *"-accel kvm -cpu host"*) ;; *) exit 3;; esac
while [ $# -gt 0 ]; do [ "$1" = -serial ] && out=${{2#file:}}; shift; done
cat {lines} > "$out"
"""


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for /dev/kvm, a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "kvm"
    path.touch()
    monkeypatch.setattr(accel, "_DEVICE", path)
    return path


def program(tmp_path: Path, body: str) -> Qemu:
    path = tmp_path / "qemu"
    path.write_text(body)
    path.chmod(0o755)
    return Qemu(path, "0")


def asked(tmp_path: Path) -> int:
    return len((tmp_path / "asked").read_text().split())


def test_kvm_is_taken_where_a_guest_answered_and_asked_once(
    tmp_path: Path, device: Path, sent: object
) -> None:
    assert callable(sent)
    (tmp_path / "lines").write_text("\n".join(sent("result", 0, {"jobs": []})) + "\n")
    qemu = program(tmp_path, RUNS.format(counter=tmp_path / "asked", lines=tmp_path / "lines"))
    for _ in range(2):
        assert choose_accelerator(qemu, Path("image"), b"") == accel.Choice("kvm")
    assert asked(tmp_path) == 1


def test_a_guest_that_dies_under_kvm_is_emulated_with_the_reason(tmp_path: Path, device: Path) -> None:
    body = f"#!/bin/sh\necho x >> {tmp_path / 'asked'}\necho 'KVM internal error. Suberror: 1' >&2\nexit 1\n"
    said: list[str] = []
    for _ in range(2):
        choice = choose_accelerator(program(tmp_path, body), Path("image"), b"", say=said.append)
    assert choice.accel == "tcg"
    assert "runs no guest: the guest ended without a result" in choice.reason
    assert asked(tmp_path) == 1
    assert [line for line in said if "emulated" in line]


def test_a_guest_that_spins_under_kvm_is_emulated_too(
    tmp_path: Path, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accel, "_PROBE_LIMIT_S", 0.3)
    choice = choose_accelerator(program(tmp_path, "#!/bin/sh\nwhile :; do :; done\n"), Path("image"), b"")
    assert choice.accel == "tcg"
    assert "did not end within" in choice.reason


def test_an_answer_holds_until_the_machine_boots_again(
    tmp_path: Path, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = program(tmp_path, f"#!/bin/sh\necho x >> {tmp_path / 'asked'}\nexit 1\n")
    boot_id = tmp_path / "boot_id"
    monkeypatch.setattr(accel, "_BOOT_ID", boot_id)
    for boot in ("one", "one", "two"):
        boot_id.write_text(boot)
        choose_accelerator(qemu, Path("image"), b"")
    assert asked(tmp_path) == 2


def test_without_the_device_nothing_is_tried(tmp_path: Path, device: Path) -> None:
    device.unlink()
    choice = choose_accelerator(Qemu(Path("/nonexistent"), "0"), Path("image"), b"")
    assert choice == accel.Choice("tcg", f"there is no {device}")
