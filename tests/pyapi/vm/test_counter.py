"""The plugin that counts: tried with the QEMU that is here, refused with the reason where it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError
from mqlab.vm import counter
from mqlab.vm.counter import find_counter
from mqlab.vm.qemu import Qemu, find_qemu


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    find_counter.cache_clear()
    yield
    find_counter.cache_clear()


def test_qemu_takes_the_plugin_and_the_agent_tells_its_marks() -> None:
    try:
        found = find_counter(find_qemu())
    except UnsupportedError as error:
        pytest.skip(str(error))
    marks = {name: int(address, 16) for name, address in found.marks}
    assert set(marks) == {"job", "begin", "end", "done"}
    assert len(set(marks.values())) == 4
    options = found.options(Path("/a,b"))
    assert options[0] == "-plugin"
    assert "out=/a,,b" in options[1]


def test_a_qemu_without_plugins_is_told_with_its_words(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho '-plugin: invalid option' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(UnsupportedError, match=r"QEMU 9 does not take.*-plugin: invalid option"):
        find_counter(Qemu(program, "9"))


def test_an_installation_without_the_plugin_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter.importlib.resources, "files", lambda _package: tmp_path)
    with pytest.raises(UnsupportedError, match=r"not at .*mqlab-count\.so"):
        find_counter(Qemu(Path("/nonexistent"), "0"))
