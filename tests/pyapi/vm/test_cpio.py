"""The archive that a guest starts from, read back by cpio itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mqlab.vm import cpio

ENTRIES = [
    cpio.directory("etc"),
    cpio.file("etc/one", b"1"),
    cpio.file("etc/four", b"1234"),
    cpio.file("init", b"#!/bin/true\n", executable=True),
    cpio.device("console", 5, 1),
]


def test_the_same_entries_give_the_same_bytes() -> None:
    assert cpio.archive(ENTRIES) == cpio.archive(list(ENTRIES))
    assert cpio.archive(ENTRIES) != cpio.archive(ENTRIES[:-1])


def test_every_record_starts_at_a_multiple_of_four() -> None:
    archive = cpio.archive(ENTRIES)
    assert len(archive) % 4 == 0
    at = 0
    names = []
    while True:
        assert archive[at : at + 6] == b"070701"
        size, name_size = (int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in (6, 11))
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        names.append(name)
        if name == "TRAILER!!!":
            break
        at += -(-(110 + name_size) // 4) * 4 + -(-size // 4) * 4
    assert names == ["etc", "etc/one", "etc/four", "init", "console", "TRAILER!!!"]


@pytest.mark.skipif(shutil.which("cpio") is None, reason="there is no cpio here: install cpio")
def test_cpio_reads_it(tmp_path: Path) -> None:
    done = subprocess.run(
        ["cpio", "-t", "-v", "--quiet"], input=cpio.archive(ENTRIES), capture_output=True, check=True
    )
    lines = done.stdout.decode().splitlines()
    assert [line.split()[-1] for line in lines] == ["etc", "etc/one", "etc/four", "init", "console"]
    assert lines[0].startswith("drwxr-xr-x")
    assert lines[3].startswith("-rwxr-xr-x")
    assert lines[4].startswith("crw-------")
    without_device = cpio.archive(ENTRIES[:-1])
    subprocess.run(["cpio", "-i", "--quiet"], input=without_device, cwd=tmp_path, check=True)
    assert (tmp_path / "etc/four").read_bytes() == b"1234"
