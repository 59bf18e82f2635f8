"""What the cache holds, made smaller; requests in one word; and the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqlab.errors import UsageError
from mqlab.kernels import build as build_module
from mqlab.kernels.build import KernelRequest, PatchSelection
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.manage import list_items, list_kernels, parse_size, prune_cache, remove_kernels

from .small_kernel import Watch, build, change_return


@pytest.mark.usefixtures("small_fragment")
def test_the_cache_is_pruned_from_what_was_not_used_for_longest(
    repository: Path, cache: KernelCache, tmp_path: Path
) -> None:
    old = build(repository, cache)
    new = build(repository, cache, None, change_return(tmp_path / "p.diff", "one", "3"))
    os.utime(cache.entries / old.name, (1, 1))
    total = sum(item.size_bytes for item in list_items(cache))
    removed = prune_cache(total - 1, cache)
    assert [item.name for item in removed] == [old.name]
    assert [k.name for k in list_kernels(cache)] == [new.name]
    assert [item.kind for item in prune_cache(0, cache)].count("tree") == 1
    assert list_items(cache) == []
    assert build(repository, cache).name == old.name


@pytest.mark.usefixtures("small_fragment")
def test_removal_is_by_name_and_all_or_none(repository: Path, cache: KernelCache) -> None:
    kernel = build(repository, cache)
    with pytest.raises(UsageError, match="called 'none'"):
        remove_kernels([kernel.name, "none"], cache)
    assert [item.name for item in remove_kernels([kernel.name], cache)] == [kernel.name]
    watch = Watch()
    assert build(repository, cache, watch).name == kernel.name
    assert watch.objects() == []  # its tree was still there


@pytest.mark.parametrize(("text", "size"), [("10G", 10 << 30), ("1.5M", 3 << 19), ("7", 7), ("2 KiB", 2048)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("source:7.3", KernelRequest("source:7.3")),
        ("source:7.3+rt+debug", KernelRequest("source:7.3", "rt+debug")),
        (
            "source:7.3+rt,/x/a.mbox#1-2",
            KernelRequest("source:7.3", "rt", PatchSelection(Path("/x/a.mbox"), (1, 2))),
        ),
        ("tree:/x@v6+local", KernelRequest("tree:/x@v6+local")),
        ("tree:/x@v6+rt,a,b.txt", KernelRequest("tree:/x@v6", "rt", PatchSelection(Path("a,b.txt")))),
    ],
)
def test_requests_in_one_word(text: str, request_: KernelRequest) -> None:
    assert build_module.parse_request(text) == request_


@pytest.mark.parametrize("text", ["", "source:", "debian:7.3", "source:7.3,"])
def test_what_is_no_request(text: str) -> None:
    with pytest.raises(UsageError):
        build_module.parse_request(text)


def test_the_command_line_builds_lists_and_removes(repository: Path, tmp_path: Path) -> None:
    """In processes of their own, with the shipped fragment."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    command = [sys.executable, "-m", "mqlab", "kernel"]

    def run(*arguments: str, status: int = 0) -> str:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    source = f"tree:{repository}@v1"
    patch = change_return(tmp_path / "series.diff", "two", "2")
    dry = json.loads(run("build", source, "--dry-run", "--json"))
    assert (dry["kernel"], len(dry["steps"])) == (None, 1)
    assert "not built yet" in json.loads(run("show", source, "--json", status=4))["error"]["message"]
    built = json.loads(run("build", source, "--patches", str(patch), "--json"))
    assert built["patches"][0]["files"] == ["block/two.c"]
    assert f"{source},{patch} is there" in run("build", f"{source},{patch}", "--dry-run")
    listed = json.loads(run("list", "--json"))
    assert [kernel["name"] for kernel in listed["kernels"] if kernel["patches"]] == [built["name"]]
    assert [item["kind"] for item in listed["rest"]] == ["tree"]
    shown = run("show", built["name"])
    assert built["config_hash"] in shown
    assert built["patches"][0]["id"] in shown
    assert run("remove", built["name"]).startswith("removed")
    run("remove", built["name"], status=2)
    run("prune", "--max-size", "big", status=2)
    assert len(json.loads(run("prune", "--max-size", "0", "--json"))["removed"]) == 2
    assert "no kernel" in run("list")
    broken = change_return(tmp_path / "broken.diff", "two", "none")
    error = json.loads(run("build", source, "--patches", str(broken), "--json", status=1))["error"]
    assert error["kind"] == "build"
    assert "undeclared" in error["message"]
