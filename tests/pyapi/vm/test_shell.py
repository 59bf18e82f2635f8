"""What a prompt in a guest is made of; tests/vm types into a real one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.kernel import Kernel
from mqlab.vm import busybox, shell
from mqlab.vm.busybox import find_busybox
from mqlab.vm.modules import Module, dependencies
from mqlab.vm.qemu import Machine
from mqlab.vm.shell import open_shell, shell_entries


def program(kinds: list[int], tail: bytes = b"") -> bytes:
    """The head of a 64-bit ELF program with these program headers."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, len(kinds))
    return bytes(head) + b"".join(struct.pack("<I52x", kind) for kind in kinds) + tail


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on its PATH and an empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def test_a_static_busybox_of_the_machine_is_taken_and_a_dynamic_one_is_not(alone: Path) -> None:
    path = alone / "bin" / "busybox"
    path.write_bytes(program([1, 1]))
    path.chmod(0o755)
    assert find_busybox() == path
    path.write_bytes(program([1, 3]))
    with pytest.raises(UnsupportedError, match="no static busybox") as caught:
        find_busybox()
    assert "busybox-static" in caught.value.remedy


def test_without_one_the_package_is_fetched_once(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(kept: Path, _say: object) -> Path:
        asked.append("x")
        kept.parent.mkdir(parents=True)
        kept.write_bytes(program([1]))
        return kept

    monkeypatch.setattr(busybox, "_fetch", fetch)
    assert find_busybox() == find_busybox() == alone / "cache/mqlab/busybox"
    assert len(asked) == 1


def test_all_that_a_module_needs_is_named_nearest_first() -> None:
    def module(name: str, needs: str) -> Module:
        return Module(name, f"\0depends={needs}\0".encode())

    modules = [module("a", ""), module("b", "a"), module("c", "b,built_in")]
    assert dependencies(modules) == {"a": [], "b": ["a"], "c": ["b", "a"]}


def test_modprobe_finds_the_modules_of_the_block_layer(tmp_path: Path) -> None:
    folder = tmp_path / "7.3"
    for path, needs in (("drivers/block/ublk_drv.ko", ""), ("drivers/nvme/nvme-tcp.ko", "nvme-core"),
                        ("drivers/nvme/nvme-core.ko", ""), ("sound/beep.ko", "")):  # fmt: skip
        file = folder / "kernel" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\0depends=" + needs.encode() + b"\0")
    applets = tmp_path / "busybox"
    applets.write_text("#!/bin/sh\necho sh\necho modprobe\n")
    applets.chmod(0o755)
    entries = {e.name: e for e in shell_entries(Kernel("x", "7.3", "7.3", folder, folder), applets)}
    assert sorted(entries["lib/modules/7.3/modules.dep"].content.decode().splitlines()) == [
        "nvme_core.ko:",
        "nvme_tcp.ko: nvme_core.ko",
        "ublk_drv.ko:",
    ]
    assert "lib/modules/7.3/ublk_drv.ko" in entries
    assert not [name for name in entries if "beep" in name]
    assert entries["bin/modprobe"].content == b"busybox"


def test_a_prompt_needs_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shell.sys, "stdin", (tmp_path / "x").open("w+"))
    with pytest.raises(UsageError, match="needs a terminal"):
        open_shell(Kernel("x", "r", "v", tmp_path / "k"), Machine(clock="real"))
