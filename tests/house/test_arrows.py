"""The arrows of the house hold, and each of the three guards refuses an include or import against them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small house: base <- platform, and io beside platform."""
    for name, line in {
        "base": "mqlab_folder(base)",
        "platform": "mqlab_folder(platform LINKS base LIBRARIES Boost::context)",
        "io": "mqlab_folder(io LINKS base)",
    }.items():
        folder = tmp_path / "core" / name
        folder.mkdir(parents=True)
        (folder / "CMakeLists.txt").write_text(line + "\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_checkout_follows_its_arrows(root: Path, script: Script) -> None:
    check = script("check_arrows")
    links = check.direct_links(root)
    assert links["platform"] == ["base"]
    assert "platform" not in check.reachable(links, "devices"), "the real devices know no engine"
    assert "devices" not in check.reachable(links, "drivers"), "the engine knows no real device"
    assert list(check.violations(root)) == []


@pytest.mark.parametrize(
    ("name", "include", "complaint"),
    [
        ("core/base/error.cc", '"platform/cost.h"', "against the arrows; may include only base"),
        ("core/platform/a.h", '"io/ring.h"', "against the arrows; may include only base, platform"),
        ("core/platform/a.h", "<io/ring.h>", "against the arrows"),
        ("core/platform/a.h", "<base/error.h>", "include it with quotes"),
        ("core/platform/deep/a.cc", '"../../io/ring.h"', "climbs out of its folder"),
        ("tests/core/base/test_error.cc", '"platform/cost.h"', "against the arrows"),
    ],
)
def test_a_wrong_include_is_named(
    house: Path, script: Script, name: str, include: str, complaint: str
) -> None:
    write(house, name, f"#include <vector>\n#include {include}\n")
    (found,) = script("check_arrows").violations(house)
    assert found.startswith(f"{name}:2: ")
    assert complaint in found


def test_right_includes_pass(house: Path, script: Script) -> None:
    write(
        house, "core/platform/a.cc", '#include <vector>\n#include "base/error.h"\n#include "platform/a.h"\n'
    )
    write(house, "pyapi/bindings/b.cc", '#include "io/ring.h"\n#include "platform/a.h"\n#include "b.h"\n')
    assert list(script("check_arrows").violations(house)) == []


def test_a_circle_of_folders_is_refused(house: Path, script: Script) -> None:
    write(house, "core/base/CMakeLists.txt", "mqlab_folder(base LINKS io)\n")
    with pytest.raises(SystemExit, match="in a circle"):
        list(script("check_arrows").violations(house))


def compile_line(root: Path, source: str) -> list[str]:
    """How the build compiles that source, without the output and dependency files."""
    database = root / "build" / "editable" / "compile_commands.json"
    if not database.exists():
        pytest.skip("there is no build tree; `make setup` makes one")
    entry = next(e for e in json.loads(database.read_text()) if e["file"] == str(root / source))
    command = re.sub(r" -(o|MF|MT) \S+| -MD", "", entry["command"])
    words = shlex.split(command)
    return words[words.index("/usr/bin/c++") if "/usr/bin/c++" in words else 0 : -2]


def test_the_compiler_refuses_an_include_against_the_arrows(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cc"
    compiler = [*compile_line(root, "core/base/random.cc"), "-fsyntax-only", str(source)]

    source.write_text('#include "base/error.h"\n')
    subprocess.run(compiler, check=True, cwd=tmp_path)

    source.write_text('#include "platform/cost.h"\n')
    refused = subprocess.run(compiler, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "platform/cost.h: No such file" in refused.stderr


def lint_imports(folder: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """Runs the project's own contracts on a package of another name."""
    text = (root / "pyproject.toml").read_text()
    contracts = text[text.index("[tool.importlinter]") :].replace("mqlab", "fakelab")
    (folder / "pyproject.toml").write_text(contracts)
    tool = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([str(tool), "--no-cache"], cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("module", "imports", "kept"),
    [
        ("cli", "import fakelab.errors", True),
        ("errors", "import fakelab.cli", False),
        ("model", "import fakelab.published", False),
        ("targets", "import fakelab.store", False),
        ("store", "import fakelab.targets", False),
        ("table", "import fakelab.targets", False),
    ],
)
def test_a_wrong_import_is_refused(tmp_path: Path, root: Path, module: str, imports: str, kept: bool) -> None:
    package = tmp_path / "fakelab"
    package.mkdir()
    for name in ("__init__", "cli", "errors", "model", "published", "store", "table", "targets"):
        (package / f"{name}.py").write_text("")
    (package / f"{module}.py").write_text(imports + "\n")
    done = lint_imports(tmp_path, root)
    assert (done.returncode == 0) == kept, done.stdout
    assert ("BROKEN" in done.stdout) != kept
