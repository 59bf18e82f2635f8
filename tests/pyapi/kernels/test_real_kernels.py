"""Kernels from Debian's source, built for real: minutes the first time, then from the user's cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError
from mqlab.kernels.build import Build, KernelRequest, PatchSelection, build_kernel, find_source
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.fragments import load_fragments
from mqlab.kernels.kernel import Kernel, config_value
from mqlab.kernels.patch_file import read_patches
from mqlab.kernels.plan import plan_build

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(7200)]

SOURCE = "source:7.3"


def threads() -> Path:
    folder = os.environ.get("MQLAB_THREAD_FILES")
    if not folder:
        pytest.skip("MQLAB_THREAD_FILES does not name the folder with the thread files")
    return Path(folder)


@pytest.fixture(scope="module")
def base() -> Kernel:
    try:
        return build_kernel(KernelRequest(SOURCE))
    except UnsupportedError as error:
        pytest.skip(str(error))


def test_the_base_has_every_option_of_its_fragment(base: Kernel) -> None:
    config = base.config_text()
    for fragment in load_fragments("base"):
        for name, value in fragment.options:
            assert config_value(config, name) == value.strip('"'), name
    assert base.hz() == 1000
    assert base.release.startswith("7.3.")
    assert base.version.startswith(base.release)
    assert base.image.stat().st_size > 1 << 20


@pytest.mark.parametrize("thread", ["tags-srcu", "nvme-ns-remove", "plug-batch", "quiesce-rt"])
def test_every_series_applies_and_its_cost_is_told(base: Kernel, thread: str) -> None:
    request = KernelRequest(SOURCE, patches=PatchSelection(threads() / f"{thread}.txt"))
    plan = plan_build(request)
    assert plan.kernel is not None or [step.objects for step in plan.steps if 30 < step.objects < 1000]


def test_a_patched_kernel_is_another_image_with_the_same_configuration(base: Kernel) -> None:
    patched = build_kernel(KernelRequest(SOURCE, patches=PatchSelection(threads() / "nvme-ns-remove.txt")))
    assert patched.image.read_bytes() != base.image.read_bytes()
    assert patched.config_hash() == base.config_hash()
    assert len(patched.patch_ids) == 2


@pytest.fixture(scope="module")
def base_lines(base: Kernel) -> list[str]:
    """block/blk-mq.c as it is in the tree that base was built in."""
    cache = KernelCache()
    build = Build(KernelRequest(SOURCE), find_source(SOURCE, cache, print), cache)
    path = build.folder.base / "block/blk-mq.c"
    if not path.is_file():
        pytest.skip("the tree of the base kernel was pruned")
    return path.read_text().splitlines()


def patch_that_inserts(path: Path, lines: list[str], after: str, new: str) -> Path:
    """One line after the only line that is `after`."""
    at = lines.index(after) + 1
    assert lines.count(after) == 1
    context = [
        *(f" {line}" for line in lines[at - 3 : at]),
        f"+{new}",
        *(f" {line}" for line in lines[at : at + 3]),
    ]
    head = f"--- a/block/blk-mq.c\n+++ b/block/blk-mq.c\n@@ -{at - 2},6 +{at - 2},7 @@\n"
    path.write_text(head + "\n".join(context) + "\n")
    assert read_patches(path).patches
    return path


TRY = [sys.executable, "-m", "mqlab", "try", "--json", "--experiments", "tags-srcu"]
SMALL = ["--set", "devices=5", "--set", "cpus=2", "--set", "threads=1"]


def try_json(patch: Path, status: int) -> dict[str, object]:
    done = subprocess.run([*TRY, str(patch), *SMALL], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


ENTRY = "void blk_mq_free_tag_set(struct blk_mq_tag_set *set)"


def test_a_series_that_does_not_compile(base_lines: list[str], tmp_path: Path) -> None:
    patch = patch_that_inserts(tmp_path / "p.diff", base_lines, ENTRY, "no_such_type nothing;")
    found = try_json(patch, 1)
    assert found["verdict"] == "does not build"
    assert "block/blk-mq.c" in json.dumps(found["findings"])


def test_a_series_that_oopses_where_base_does_not(base_lines: list[str], tmp_path: Path) -> None:
    anchor = "\tcleanup_srcu_struct(&set->tags_srcu);"
    last = len(base_lines) - 1 - base_lines[::-1].index(anchor)
    marked = [line if n == last else line.replace(anchor, anchor + " ") for n, line in enumerate(base_lines)]
    patch = patch_that_inserts(tmp_path / "p.diff", marked, anchor, "\t*(volatile int *)NULL = 1;")
    found = try_json(patch, 1)
    assert found["verdict"] == "breaks"
    assert "NULL pointer dereference" in json.dumps(found["findings"])
    rows = found["rows"]
    assert isinstance(rows, list)
    assert all(row["verdict"] == "regressed" for row in rows if row["metric"].startswith("del"))


def test_the_series_of_tags_srcu_is_an_improvement(base: Kernel) -> None:
    found = try_json(threads() / "tags-srcu.txt", 0)
    rows = found["rows"]
    assert isinstance(rows, list)
    deleted = [row for row in rows if row["metric"] == "del_dev_ms"]
    assert deleted
    assert all(row["ratios"]["series"] < 0.5 for row in deleted)
