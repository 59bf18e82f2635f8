"""The checks on the tree and on the linter's memory find what they are there for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

HOSTS = {"mirror.example.org"}
PLACES = {"/srv/builder/"}

Script = Callable[[str], ModuleType]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.py", "x = 1  # TO" + "DO later\n", "left unfinished"),
        ("a.py", "raise NotImplemented" + "Error\n", "left unfinished"),
        ("a.cc", "CHECK(" + "true);\n", "cannot fail"),
        ("test_a.py", "assert " + "True\n", "cannot fail"),
        ("a.toml", 'path = "/srv/builder/x"\n', "path of this machine"),
        ("a.md", "from https://mirror.example.org/debian\n", "package mirror"),
        ("a.py", "x = 1\n" * 401, "more than 400"),
        ("a.so", "", "built or fetched"),
    ],
)
def test_what_must_not_be_committed_is_found(
    tmp_path: Path, script: Script, name: str, text: str, complaint: str
) -> None:
    (tmp_path / name).write_text(text)
    (found,) = script("check_tree").findings(tmp_path, [Path(name)], HOSTS, PLACES)
    assert complaint in found


def test_a_plain_file_passes(tmp_path: Path, script: Script) -> None:
    (tmp_path / "a.py").write_text("# reads /usr/share and https://www.kernel.org\nx = 1\n")
    assert list(script("check_tree").findings(tmp_path, [Path("a.py")], HOSTS, PLACES)) == []


def test_clang_tidy_looks_again_when_an_included_header_changes(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidy = script("run_tidy")
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    base = tmp_path / "core" / "base"
    base.mkdir(parents=True)
    (tmp_path / ".clang-tidy").write_text("Checks: all\n")
    (base / "inner.h").write_text("int inner();\n")
    (base / "outer.h").write_text('#include "base/inner.h"\n')
    source = base / "a.cc"
    source.write_text('#include "base/outer.h"\n')

    before = tidy.key_of(source, "c++ a.cc", "23")
    assert tidy.key_of(source, "c++ a.cc", "23") == before
    assert tidy.key_of(source, "c++ -O2 a.cc", "23") != before
    assert tidy.key_of(source, "c++ a.cc", "24") != before
    (base / "inner.h").write_text("int inner(int);\n")
    assert tidy.key_of(source, "c++ a.cc", "23") != before


def test_a_fresh_stub_is_the_committed_one(script: Script) -> None:
    check = script("check_stubs")
    assert check.fresh_stub() == check.COMMITTED.read_text()
