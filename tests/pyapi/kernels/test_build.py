"""Building, on a tree that builds like a kernel in a second: reuse, patches, fragments, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.apply import PatchFailedError
from mqlab.kernels.build import BuildFailedError, KernelRequest, PatchSelection, build_kernel
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.find import find_kernel
from mqlab.kernels.manage import list_kernels
from mqlab.kernels.plan import plan_build

from .small_kernel import Watch, build, change_number, change_return, run_git, symbols

pytestmark = pytest.mark.usefixtures("small_fragment")


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
    assert any("with 1 patch: 31 objects" in line for line in watch.said)
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
    assert [step.objects for step in plan.steps] == [3 + 30]
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
    assert not list(cache.trees.glob("*/*.building"))  # make ended by itself: what it wrote is whole
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


def test_another_commit_is_built_from_the_tree_of_the_last(repository: Path, cache: KernelCache) -> None:
    build(repository, cache)
    (repository / "block/two.c").write_text((repository / "block/two.c").read_text().replace("NUMBER", "9"))
    (repository / "block/two.h").unlink()
    (repository / "added.txt").write_text("new\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "second")
    watch = Watch()
    request = KernelRequest(f"tree:{repository}@main")
    second = build_kernel(request, cache=cache, say=watch.said.append, progress=watch.progress)
    assert watch.objects() == ["block/two.o"]
    assert any("differs in 3 files" in line for line in watch.said)
    fresh = build_kernel(request, cache=KernelCache(cache.root / "fresh"))
    assert symbols(second) == symbols(fresh)
    (tree,) = [path.parent for path in cache.trees.glob("*/base/added.txt")]
    assert not (tree / "block/two.h").exists()
    first = build(repository, KernelCache(cache.root / "again"))
    assert symbols(first) == symbols(build(repository, cache))  # the first tree was not written into


def test_what_is_no_kernel_is_refused(tmp_path: Path, cache: KernelCache) -> None:
    with pytest.raises(UsageError, match="names no folder"):
        build_kernel(f"tree:{tmp_path}/none@v1", cache=cache)
    with pytest.raises(UsageError, match="git said"):
        build_kernel(f"tree:{tmp_path}@v1", cache=cache)


def test_missing_tools_are_all_named_with_the_command(
    repository: Path, cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqlab.kernels.tools._missing", lambda: [("bc", "bc"), ("gelf.h", "libelf-dev")])
    with pytest.raises(UnsupportedError, match=r"bc, gelf\.h") as caught:
        build(repository, cache)
    assert caught.value.remedy == "apt-get install bc libelf-dev"
