"""Emulated devices: what is asked for in a word, and QEMU's options for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mqlab.errors import UsageError
from mqlab.vm.devices import device_options, parse_device
from mqlab.vm.qemu import Machine

ALL = ("nvme:queues=4", "virtio-scsi:queues=8,disks=2,depth=64", "virtio-blk:queues=2,latency_us=50", "nvme")


def test_options_that_are_left_out_are_qemus_own() -> None:
    assert device_options(["nvme"]) == [
        *("-blockdev", "driver=null-co,node-name=mqlab0,read-zeroes=on,size=1073741824"),
        *("-device", "nvme,drive=mqlab0,serial=mqlab0"),
    ]


def test_every_queue_of_an_nvme_controller_has_an_interrupt() -> None:
    assert "nvme,drive=mqlab0,serial=mqlab0,max_ioqpairs=100,msix_qsize=101" in device_options(
        ["nvme:queues=100"]
    )


def test_each_disk_of_a_scsi_host_has_a_backing_of_its_own() -> None:
    options = device_options(["virtio-scsi:queues=8,disks=2,size_mib=1,latency_us=5"])
    assert "virtio-scsi-pci,id=mqlab0,num_queues=8" in options
    for disk in (0, 1):
        assert f"scsi-hd,bus=mqlab0.0,scsi-id={disk},drive=mqlab0-{disk}" in options
        backing = f"driver=null-co,node-name=mqlab0-{disk},read-zeroes=on,size=1048576,latency-ns=5000"
        assert backing in options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("floppy", "no emulated device"),
        ("nvme:quues=4", "did you mean queues?"),
        ("nvme:queues=many", "a whole number up to 2047"),
        ("virtio-blk:queues=1025", "a whole number up to 1024"),
        ("virtio-blk:queues", "a whole number"),
    ],
)
def test_a_wrong_word_is_refused_with_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_device(text)
    assert says in str(caught.value)


def test_a_deterministic_guest_refuses_an_emulated_device_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"in the host's time.*clock \"real\""):
        Machine(devices=("nvme",))
    with pytest.raises(UsageError, match="cannot count a guest's instructions"):
        Machine(accel="kvm")


@pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None, reason="there is no QEMU: install qemu-system-x86"
)
def test_qemu_takes_every_device(tmp_path: Path) -> None:
    """Started without an image and with a CPU that never runs, so that only the options are judged."""
    options = Machine(clock="real", devices=ALL, memory_mib=64).options(Path("k"), Path("i"), tmp_path / "c")
    at = options.index("-kernel")
    command = ["qemu-system-x86_64", *options[:at], *options[at + 6 :], "-S", "-monitor", "stdio"]
    command = [word for word in command if word != "none" or command[command.index(word) - 1] != "-monitor"]
    done = subprocess.run(command, input="quit\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
