"""What users install: an sdist, the wheel built from it, and that wheel in a fresh venv elsewhere."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

PT_INTERP = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run(command: list[str], folder: Path) -> str:
    """Runs it with this venv's CMake and Ninja first on PATH; its output, or a failed test that shows it."""
    tools = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "CXX": "c++"}
    environment |= {"CMAKE_BUILD_PARALLEL_LEVEL": "2", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out)], root)
    (file,) = out.glob("mqlab-*.tar.gz")
    return file


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    # With the flags of the checkout's own build, so that ccache knows most of it already.
    settings = ["--config-settings=cmake.define.MQLAB_WERROR=ON"]
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out)]
    run([*pip, *settings, str(sdist)], out)
    (file,) = out.glob("mqlab-*.whl")
    return file


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh venv that holds the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    run([str(folder / "bin" / "pip"), "install", "-q", str(wheel)], folder)
    return folder / "bin"


def test_the_sdist_holds_the_sources_and_no_build(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {"/".join(Path(name).parts[1:]) for name in archive.getnames()}
        links = [member.name for member in archive.getmembers() if member.issym()]
    for wanted in ("CMakeLists.txt", "core/base/error.h", "pyapi/bindings/module.cc", "LICENSE"):
        assert wanted in names
    assert "pyapi/mqlab/_published/tags-srcu.toml" in names
    assert "pyapi/mqlab/experiments/__init__.py" in names
    assert links == [], "pip refuses links that climb"
    assert not [name for name in names if name.startswith(("build/", ".venv/", "dist/", ".ci"))]


def test_the_wheel_holds_what_runs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    data = ["experiments/tags_srcu.py", "_published/tags-srcu.toml", "_kernel_configs/base.config"]
    for wanted in ("_core.pyi", "py.typed", "errors.py", *data):
        assert f"mqlab/{wanted}" in names
    assert [name for name in names if name.startswith("mqlab/_core.") and name.endswith(".so")]
    assert "mqlab/bin/mqlab-agent" in names
    outside = {name.split("/")[0] for name in names if not name.startswith("mqlab")}
    assert outside == set(), "a wheel may only put mqlab into site-packages"
    assert not [name for name in names if name.endswith((".cc", ".h", ".a"))]


def test_the_installed_package_works_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    program = "import mqlab, mqlab._core as core; print(mqlab.__file__, core.version() == mqlab.__version__)"
    where, agrees = run([str(installed / "python"), "-c", program], tmp_path).split()
    assert Path(where).is_relative_to(installed.parent)
    assert agrees == "True"


def test_the_installed_command_lists_the_experiments(installed: Path, tmp_path: Path) -> None:
    listing = run([str(installed / "mqlab"), "list"], tmp_path)
    for thread in ("tags-srcu", "nvme-ns-remove", "plug-batch", "quiesce-rt"):
        assert thread in listing


def program_header_types(elf: bytes) -> list[int]:
    """The p_type of each program header of a 64-bit little-endian ELF file."""
    (offset,) = struct.unpack_from("<Q", elf, 0x20)
    size, count = struct.unpack_from("<HH", elf, 0x36)
    return [struct.unpack_from("<I", elf, offset + i * size)[0] for i in range(count)]


def test_the_agent_in_the_wheel_runs_and_needs_no_library(installed: Path, tmp_path: Path) -> None:
    locate = "import importlib.resources as r; print(r.files('mqlab') / 'bin' / 'mqlab-agent')"
    agent = Path(run([str(installed / "python"), "-c", locate], tmp_path).strip())
    assert os.access(agent, os.X_OK)
    assert PT_INTERP not in program_header_types(agent.read_bytes()), "it names a dynamic linker"


def test_the_checkout_is_installed_as_editable(root: Path) -> None:
    import mqlab
    from mqlab import errors, experiments

    for module in (mqlab, errors, experiments):
        assert module.__file__ is not None
        assert Path(module.__file__).resolve().is_relative_to(root), (
            "an edit shows without another installation"
        )
