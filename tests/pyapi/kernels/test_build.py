"""Building, on a tree that builds like a kernel in a second: reuse, patches, interruption, errors."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels import build as build_module
from mqlab.kernels import trees
from mqlab.kernels.apply import PatchFailedError
from mqlab.kernels.build import BuildFailedError, KernelRequest, PatchSelection, build_kernel
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.find import find_kernel
from mqlab.kernels.kernel import Kernel
from mqlab.kernels.manage import list_items, list_kernels, parse_size, prune_cache, remove_kernels
from mqlab.kernels.plan import plan_build

from .small_kernel import change_number, change_return, make_small_kernel, run_git

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are built on Linux")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_small_kernel(tmp_path / "linux")


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "cache")


@pytest.fixture(autouse=True)
def small_fragment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for the shipped ones, of which the small kernel knows no option."""
    folder = tmp_path / "fragments"
    (folder / "_kernel_configs").mkdir(parents=True)
    (folder / "_kernel_configs" / "base.config").write_text("CONFIG_HZ=1000\n")
    (folder / "_kernel_configs" / "rt.config").write_text("CONFIG_PREEMPT_RT=y\n")
    monkeypatch.setattr("mqlab.kernels.fragments.files", lambda _package: folder)
    return folder / "_kernel_configs"


class Watch:
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.said: list[str] = []

    def progress(self, _done: int, _planned: int, what: str) -> None:
        self.made.append(what)

    def objects(self) -> list[str]:
        return sorted(name for name in self.made if name.endswith(".o"))


def build(
    repository: Path,
    cache: KernelCache,
    watch: Watch | None = None,
    patches: Path | None = None,
    **more: object,
) -> Kernel:
    watch = watch or Watch()
    selection = PatchSelection(patches) if patches is not None else None
    request = KernelRequest(f"tree:{repository}@v1", patches=selection, **more)  # type: ignore[arg-type]
    return build_kernel(request, cache=cache, say=watch.said.append, progress=watch.progress)


def symbols(kernel: Kernel) -> bytes:
    return kernel.image.read_bytes()


def test_a_kernel_is_built_once_and_described(repository: Path, cache: KernelCache) -> None:
    watch = Watch()
    kernel = build(repository, cache, watch)
    assert watch.objects() == ["block/one.o", "block/three.o", "block/two.o"]
    assert (kernel.release, kernel.hz(), kernel.fragment) == ("9.9.0", 1000, "base")
    assert kernel.version.startswith("v1 (")
    assert "gcc" in kernel.compiler.lower()
    assert kernel.patch_ids == ()
    again = Watch()
    assert build(repository, cache, again) == kernel
    assert again.made == []
    assert find_kernel(kernel.name, cache=cache).image == kernel.image


def test_a_patch_compiles_only_what_it_touches(repository: Path, cache: KernelCache, tmp_path: Path) -> None:
    plain = build(repository, cache)
    watch = Watch()
    patched = build(repository, cache, watch, change_return(tmp_path / "two.diff", "two", "22"))
    assert watch.objects() == ["block/two.o"]
    assert symbols(patched) != symbols(plain)
    assert patched.config_hash() == plain.config_hash()
    assert patched.patches[0].files == ("block/two.c",)
    assert any("1 objects" in line for line in watch.said)
    # The next patch is built in the same tree: the first is taken back, and nothing else is compiled.
    watch = Watch()
    other = build(repository, cache, watch, change_return(tmp_path / "one.diff", "one", "11"))
    assert watch.objects() == ["block/one.o", "block/two.o"]
    assert len({symbols(k) for k in (plain, patched, other)}) == 3
    # A whole build of the same patch gives the same image: nothing of the others was left over.
    fresh = build(
        repository, KernelCache(tmp_path / "other"), None, change_return(tmp_path / "one.diff", "one", "11")
    )
    assert symbols(fresh) == symbols(other)


def test_the_cost_of_a_header_is_told_beforehand(
    repository: Path, cache: KernelCache, tmp_path: Path
) -> None:
    build(repository, cache)
    request = KernelRequest(
        f"tree:{repository}@v1", patches=PatchSelection(change_number(tmp_path / "n.diff", 5))
    )
    plan = plan_build(request, cache)
    assert [step.objects for step in plan.steps] == [3]
    assert plan.seconds > 0
    assert list_kernels(cache)[0].patch_ids == ()  # a plan builds nothing
    assert len(list_kernels(cache)) == 1


def test_the_same_change_from_another_file_is_the_same_kernel(
    repository: Path, cache: KernelCache, tmp_path: Path
) -> None:
    first = build(repository, cache, None, change_return(tmp_path / "a.diff", "one", "3"))
    watch = Watch()
    second = build(repository, cache, watch, change_return(tmp_path / "b.diff", "one", "3"))
    assert second.name == first.name
    assert watch.made == []


def test_source_files_of_a_copy_are_links_that_are_never_written(
    repository: Path, cache: KernelCache, tmp_path: Path
) -> None:
    build(repository, cache, None, change_return(tmp_path / "p.diff", "one", "3"))
    (folder,) = cache.trees.iterdir()
    base, work = folder / "base", folder / "work1"
    assert (base / "block/two.c").samefile(work / "block/two.c")
    assert not (base / "block/two.o").samefile(work / "block/two.o")
    assert "return NUMBER" in (base / "block/one.c").read_text()
    assert "return 3" in (work / "block/one.c").read_text()


def test_a_patch_that_does_not_apply_leaves_everything_as_it_was(
    repository: Path, cache: KernelCache, tmp_path: Path
) -> None:
    good = change_return(tmp_path / "good.diff", "one", "3")
    kernel = build(repository, cache, None, good)
    bad = tmp_path / "bad.diff"
    bad.write_text(good.read_text().replace("-\treturn NUMBER;", "-\treturn OTHER;"))
    with pytest.raises(PatchFailedError, match=r"hunk 1 on block/one\.c: line 7 is 'return NUMBER;'"):
        build(repository, cache, None, bad)
    assert [k.name for k in list_kernels(cache) if k.patches] == [kernel.name]


def test_a_compiler_error_is_shown_and_the_next_build_goes_on(
    repository: Path, cache: KernelCache, tmp_path: Path
) -> None:
    with pytest.raises(BuildFailedError) as caught:
        build(repository, cache, None, change_return(tmp_path / "bad.diff", "two", "undeclared"))
    assert "block/two.c:7" in caught.value.lines[0]
    assert "undeclared" in caught.value.message
    assert "two.c" in caught.value.log.read_text()
    assert caught.value.kind == "build"
    watch = Watch()
    build(repository, cache, watch, change_return(tmp_path / "good.diff", "two", "4"))
    assert watch.objects() == ["block/two.o"]


def test_fragments_stand_on_each_other_and_refused_options_are_named(
    repository: Path, cache: KernelCache, small_fragment: Path, tmp_path: Path
) -> None:
    assert "CONFIG_PREEMPT_RT=y" in build(repository, cache, fragment="rt").config_text()
    own = tmp_path / "own.config"
    own.write_text("CONFIG_REFUSED=y\n")
    with pytest.raises(
        UnsupportedError, match=r"REFUSED \(wanted y, got n, unknown to this kernel; from own\)"
    ):
        build(repository, cache, fragment=str(own))
    watch = Watch()
    own.write_text("# optional\nCONFIG_REFUSED=y\nCONFIG_HZ=300\n")
    assert build(repository, cache, watch, fragment=str(own)).hz() == 300
    assert "REFUSED is not in this kernel" in watch.said
    with pytest.raises(UsageError, match="no fragment 'none'"):
        build(repository, cache, fragment="none")
    own.write_text("HZ=300\n")
    with pytest.raises(UsageError, match="line 1 of the fragment own"):
        build(repository, cache, fragment=str(own))


def test_the_users_own_configuration_is_what_the_fragment_stands_on(
    repository: Path, cache: KernelCache, small_fragment: Path, tmp_path: Path
) -> None:
    (small_fragment / "own.config").write_text("# optional\nCONFIG_REFUSED=y\n")
    config = tmp_path / "distribution.config"
    config.write_text('CONFIG_HZ=250\nCONFIG_LOCALVERSION="-mine"\n')
    kernel = build(repository, cache, config=config)
    assert kernel.hz() == 1000
    assert "-mine" in kernel.config_text()
    assert kernel.name != build(repository, cache).name


def test_the_checkout_is_left_alone_and_other_commits_are_other_kernels(
    repository: Path, cache: KernelCache
) -> None:
    first = build(repository, cache)
    (repository / "block/one.c").write_text("not committed\n")
    watch = Watch()
    head = build_kernel(f"tree:{repository}", cache=cache, say=watch.said.append)
    assert head.name == first.name  # HEAD is the same content as v1
    assert any("not committed" in line for line in watch.said)
    run_git(repository, "checkout", "-q", "--", ".")
    (repository / "block/one.c").write_text((repository / "block/one.c").read_text() + "int more;\n")
    run_git(repository, "commit", "-qam", "second")
    assert build_kernel(f"tree:{repository}@main", cache=cache).name != first.name
    assert run_git(repository, "status", "--porcelain") == ""
    with pytest.raises(UsageError, match="no commit v7"):
        build_kernel(f"tree:{repository}@v7", cache=cache)


def test_what_is_no_kernel_is_refused(tmp_path: Path, cache: KernelCache) -> None:
    with pytest.raises(UsageError, match="names no folder"):
        build_kernel(f"tree:{tmp_path}/none@v1", cache=cache)
    with pytest.raises(UsageError, match="git said"):
        build_kernel(f"tree:{tmp_path}@v1", cache=cache)


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


def test_a_tree_in_use_is_not_pruned(repository: Path, cache: KernelCache) -> None:
    process = start_aside(repository, cache, delay="2")
    wait_for(lambda: list(cache.trees.glob("*/base.building")))
    assert prune_cache(0, cache) == []
    process.join()
    assert process.exitcode == 0
    assert len(list_kernels(cache)) == 1


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


def test_missing_tools_are_all_named_with_the_command(
    repository: Path, cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqlab.kernels.tools._missing", lambda: [("bc", "bc"), ("gelf.h", "libelf-dev")])
    with pytest.raises(UnsupportedError, match=r"bc, gelf\.h") as caught:
        build(repository, cache)
    assert caught.value.remedy == "apt-get install bc libelf-dev"


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
