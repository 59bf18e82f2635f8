"""Which modules go into an initramfs, and in which order."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from mqlab.vm.modules import load_order, module_files


def content(name: str, depends: str = "") -> bytes:
    """Enough of a module: its description as it stands in one."""
    return b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0name=" + name.encode() + b"\0tail"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    (kernel / "nvme-tcp.ko.xz").write_bytes(lzma.compress(content("nvme_tcp", "nvme-core,nvme-fabrics")))
    (kernel / "nvme-core.ko.gz").write_bytes(gzip.compress(content("nvme_core")))
    (kernel / "nvme-fabrics.ko").write_bytes(content("nvme_fabrics", "nvme-core,built_in"))
    (kernel / "note.txt").write_text("no module")
    return tmp_path


def test_names_have_underscores_whatever_the_file_has(folder: Path) -> None:
    assert set(module_files(folder)) == {"nvme_tcp", "nvme_core", "nvme_fabrics"}


def test_what_a_module_needs_comes_before_it_and_once(folder: Path) -> None:
    modules = load_order(folder, ["nvme-tcp", "nvme_fabrics"])
    assert [module.name for module in modules] == ["nvme_core", "nvme_fabrics", "nvme_tcp"]


def test_modules_are_unpacked(folder: Path) -> None:
    assert all(module.content.startswith(b"\x7fELF") for module in load_order(folder, ["nvme_tcp"]))


def test_what_is_built_in_or_missing_is_left_to_the_workload(folder: Path) -> None:
    assert load_order(folder, ["ublk_drv"]) == []
