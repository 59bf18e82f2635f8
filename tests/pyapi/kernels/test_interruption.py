"""Builds that are killed, interrupted, or run at the same time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from mqlab.kernels import trees
from mqlab.kernels.build import KernelRequest, build_kernel
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.manage import list_kernels, prune_cache

from .small_kernel import Watch, build, change_return, symbols

pytestmark = pytest.mark.usefixtures("small_fragment")


def run_aside(repository: Path, cache: KernelCache, patches: Path | None, delay: str) -> None:
    os.environ["SMALL_KERNEL_DELAY"] = delay
    build(repository, cache, None, patches)


def start_aside(
    repository: Path, cache: KernelCache, patches: Path | None = None, delay: str = "1"
) -> multiprocessing.process.BaseProcess:
    context = multiprocessing.get_context("fork")
    process = context.Process(target=run_aside, args=(repository, cache, patches, delay))
    process.start()
    return process


def wait_for(condition: object, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def test_a_killed_build_does_no_harm(
    repository: Path, cache: KernelCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start_aside(repository, cache)
    wait_for(lambda: list(cache.trees.glob("*/base/block/one.o")))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    (marker,) = cache.trees.glob("*/base.building")
    # As if the compiler had been killed while it wrote: to make it looks up to date.
    (broken,) = cache.trees.glob("*/base/block/one.o")
    broken.write_bytes(broken.read_bytes()[:100])
    watch = Watch()
    kernel = build(repository, cache, watch)
    assert not marker.exists()
    assert "block/one.o" in watch.objects()
    assert symbols(kernel) == symbols(build(repository, KernelCache(tmp_path / "fresh")))


def test_what_was_made_long_before_a_kill_is_kept(
    repository: Path, cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_SUSPECT_S", 0.5)
    process = start_aside(repository, cache, delay="2")
    wait_for(lambda: list(cache.trees.glob("*/base/block/*.o")))
    time.sleep(0.2)
    made = {path.name for path in cache.trees.glob("*/base/block/*.o")}
    wait_for(lambda: {path.name for path in cache.trees.glob("*/base/block/*.o")} - made)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    watch = Watch()
    build(repository, cache, watch)
    assert not {f"block/{name}" for name in made} & set(watch.objects())


def test_an_interrupt_ends_make_and_the_next_build_goes_on(
    repository: Path, cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_KERNEL_DELAY", "30")

    def interrupt(_done: int, _planned: int, _what: str) -> None:
        raise KeyboardInterrupt

    request = KernelRequest(f"tree:{repository}@v1")
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build_kernel(request, cache=cache, progress=interrupt)
    assert time.monotonic() - start < 25  # make was ended, not waited for
    monkeypatch.setenv("SMALL_KERNEL_DELAY", "0")
    assert build(repository, cache).release == "9.9.0"


def test_two_patches_build_at_the_same_time(repository: Path, cache: KernelCache, tmp_path: Path) -> None:
    build(repository, cache)
    one = change_return(tmp_path / "one.diff", "one", "1")
    two = change_return(tmp_path / "two.diff", "two", "2")
    processes = [start_aside(repository, cache, patch, "3") for patch in (one, two)]
    wait_for(lambda: len(list(cache.trees.glob("*/work*.building"))) == 2)
    for process in processes:
        process.join()
    assert len([k for k in list_kernels(cache) if k.patches]) == 2


def test_a_tree_in_use_is_not_pruned(repository: Path, cache: KernelCache) -> None:
    process = start_aside(repository, cache, delay="2")
    wait_for(lambda: list(cache.trees.glob("*/base.building")))
    assert prune_cache(0, cache) == []
    process.join()
    assert process.exitcode == 0
    assert len(list_kernels(cache)) == 1
