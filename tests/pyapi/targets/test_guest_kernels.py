"""Which kernel a variant is, without fetching or building one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError
from mqlab.kernels.kernel import Kernel
from mqlab.records import RunSpec
from mqlab.targets import guest_kernels
from mqlab.targets.guest_kernels import GuestKernels


def spec(variant: str, patches: tuple[int, ...] | None, fragment: str = "base") -> RunSpec:
    return RunSpec(
        "w", "vm", 1, {}, {}, experiment="e", case="c", variant=variant, thread="tags-srcu",
        patches=patches, fragment=fragment, kernel_reason="nobody wrote it",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_kernel_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQLAB_KERNEL", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tags-srcu.txt").write_text("a thread")
    return tmp_path


def test_without_anything_the_kernel_is_fetched_by_its_kind() -> None:
    kernels = GuestKernels()
    assert kernels.source_of(spec("before", ())) == "debian:7.3-cloud"
    assert kernels.source_of(spec("before", (), "rt")) == "debian:7.3-rt"
    with pytest.raises(UnsupportedError, match="no package has a kernel of the kind debug"):
        kernels.source_of(spec("before", (), "debug"))


def test_with_thread_files_all_variants_are_built_from_one_source(folder: Path) -> None:
    kernels = GuestKernels(thread_files=folder)
    assert kernels.source_of(spec("before", ())) == "source:7.3"
    assert kernels.source_of(spec("before", (), "rt")) == "source:7.3+rt"
    assert kernels.source_of(spec("series", (1, 2))) == f"source:7.3,{folder / 'tags-srcu.txt'}#1,2"
    assert kernels.source_of(spec("patch", (1,), "rt")) == f"source:7.3+rt,{folder / 'tags-srcu.txt'}#1"


def test_the_users_tree_takes_the_patches(folder: Path) -> None:
    kernels = GuestKernels("tree:/src/linux@v7.2", folder)
    assert kernels.source_of(spec("before", ())) == "tree:/src/linux@v7.2"
    assert kernels.source_of(spec("p", (2,))) == f"tree:/src/linux@v7.2,{folder / 'tags-srcu.txt'}#2"


def test_the_environment_names_the_kernel_that_no_option_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLAB_KERNEL", "debian:6.12-cloud")
    assert GuestKernels().source_of(spec("before", ())) == "debian:6.12-cloud"
    assert GuestKernels("installed:6.1").source_of(spec("before", ())) == "installed:6.1"


def test_a_variant_of_its_own_kernel_is_taken_as_given() -> None:
    kernels = GuestKernels(kernels={"e/before": "image:/a", "before": "image:/b", "odd": "image:/c"})
    assert kernels.source_of(spec("before", ())) == "image:/a"
    assert kernels.source_of(spec("odd", None)) == "image:/c"


@pytest.mark.parametrize(
    ("kernels", "patches", "message", "remedy"),
    [
        (GuestKernels("source:7.3"), (1,), "with patch 1 of the thread tags-srcu", "--thread-files"),
        (GuestKernels(), (1, 2), "with patches 1, 2 of the thread", "--thread-files"),
        (GuestKernels("debian:7.3", Path("/f")), (1,), "debian:7.3 is a finished image", "source:7.3"),
        (
            GuestKernels(thread_files=Path("/no/such")),
            (1,),
            "there is no /no/such/tags-srcu.txt",
            "THREAD.txt",
        ),
        (GuestKernels(), None, "nobody wrote it", "--target sim"),
    ],
)
def test_what_cannot_be_had_says_why_and_what_to_give(
    kernels: GuestKernels, patches: tuple[int, ...] | None, message: str, remedy: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        kernels.source_of(spec("odd", patches))
    assert message in caught.value.message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("config", "kind", "refused"), [("y", "base", True), ("y", "rt", False), ("", "rt", True)]
)
def test_an_image_of_another_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, kind: str, refused: bool
) -> None:
    path = tmp_path / "config"
    path.write_text(f"CONFIG_HZ=1000\nCONFIG_PREEMPT_RT={config}\n" if config else "CONFIG_HZ=1000\n")
    kernel = Kernel("image:x", "7.3.4", "7.3.4", tmp_path / "bzImage", config=path)
    asked: list[str] = []

    def find(source: str, **_options: object) -> Kernel:
        asked.append(source)
        return kernel

    monkeypatch.setattr(guest_kernels, "find_kernel", find)
    kernels = GuestKernels("image:x")
    if refused:
        with pytest.raises(UnsupportedError, match="wants"):
            kernels.for_spec(spec("before", (), kind))
    else:
        assert kernels.for_spec(spec("before", (), kind)) is kernel
        assert kernels.for_spec(spec("before", (), kind)) is kernel
        assert asked == ["image:x"]


def test_a_build_says_its_tenths_and_ends_when_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = False

    def find(_source: str, *, progress: Callable[[int, int, str], None], **_options: object) -> Kernel:
        nonlocal cancelled
        for done in range(1, 41):
            progress(done, 80, "a.o")
        cancelled = True
        progress(41, 80, "b.o")
        raise AssertionError("it went on")

    monkeypatch.setattr(guest_kernels, "find_kernel", find)
    said: list[str] = []
    kernels = GuestKernels("source:7.3", say=said.append, cancellation=lambda: lambda: cancelled)
    with pytest.raises(KeyboardInterrupt):
        kernels.for_spec(spec("before", ()))
    assert said == [f"built {8 * n} of 80 objects" for n in range(1, 6)]
