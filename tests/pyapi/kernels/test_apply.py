"""Patches put on files: what goes in, what does not and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.errors import UsageError
from mqlab.kernels.apply import PatchFailedError, apply_patches
from mqlab.kernels.patch_file import Patch, read_patches

LINES = [f"line {n}" for n in range(1, 41)]


def tree(folder: Path, lines: list[str] = LINES) -> Path:
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib/a.c").write_text("\n".join(lines) + "\n")
    return folder


def diff(at: int, old: str, new: str, context: list[str] = LINES, name: str = "lib/a.c") -> str:
    before, after = context[at - 4 : at - 1], context[at : at + 3]
    body = [*(f" {line}" for line in before), f"-{old}", f"+{new}", *(f" {line}" for line in after)]
    head = f"--- a/{name}\n+++ b/{name}\n@@ -{at - 3},{len(body) - 1} +{at - 3},{len(body) - 1} @@\n"
    return head + "\n".join(body) + "\n"


def patches(folder: Path, *texts: str) -> list[Patch]:
    found: list[Patch] = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.diff"
        path.write_text(text)
        found += read_patches(path).patches
    return found


def test_a_series_builds_on_itself_and_leaves_the_tree_alone(tmp_path: Path) -> None:
    series = patches(tmp_path, diff(10, "line 10", "ten"), diff(10, "ten", "TEN"))
    applied = apply_patches(tree(tmp_path), series)
    content = applied.files["lib/a.c"]
    assert content is not None
    assert content[0].decode().splitlines()[9] == "TEN"
    assert (tmp_path / "lib/a.c").read_text().splitlines() == LINES
    assert applied.remarks == ()


def test_offsets_and_fuzz_are_allowed_and_named(tmp_path: Path) -> None:
    moved = tree(tmp_path, ["new"] * 5 + LINES)
    assert apply_patches(moved, patches(tmp_path, diff(10, "line 10", "ten"))).remarks == (
        "patch 1: lib/a.c: 1 hunk moved",
    )
    near = tree(tmp_path, ["other" if line == "line 7" else line for line in LINES])
    assert "less context" in apply_patches(near, patches(tmp_path, diff(10, "line 10", "ten"))).remarks[0]


def test_the_failing_hunk_is_named_with_its_text_and_the_reason(tmp_path: Path) -> None:
    second = "\n".join(diff(30, "line 31x", "ten").splitlines()[2:]) + "\n"
    with pytest.raises(PatchFailedError) as caught:
        apply_patches(tree(tmp_path), patches(tmp_path, diff(10, "line 10", "ten") + second))
    error = caught.value
    assert (error.path, error.hunk_number) == ("lib/a.c", 2)
    assert error.why == "line 30 is 'line 30' where it expects 'line 31x'"
    assert "+ten" in error.rejected
    assert error.rejected.startswith("@@ -27,7")
    assert error.kind == "usage"


def test_a_missing_file_and_a_patch_that_is_in_already_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(PatchFailedError, match=r"lib/none\.c: there is no such file"):
        apply_patches(tree(tmp_path), patches(tmp_path, diff(10, "line 10", "ten", name="lib/none.c")))
    done = tree(tmp_path, ["ten" if line == "line 10" else line for line in LINES])
    with pytest.raises(PatchFailedError, match="in this kernel already"):
        apply_patches(done, patches(tmp_path, diff(10, "line 10", "ten")))
    with pytest.raises(PatchFailedError, match="none of its lines"):
        apply_patches(tree(tmp_path, ["x"]), patches(tmp_path, diff(10, "line 10", "ten")))


def test_files_come_and_go(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "gone").write_text("only\n")
    text = (
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-only\n"
        "diff --git a/x.sh b/x.sh\nnew file mode 100755\n--- /dev/null\n+++ b/x.sh\n@@ -0,0 +1 @@\n+echo\n"
    )
    applied = apply_patches(tmp_path, patches(tmp_path, text))
    assert applied.files == {"gone": None, "x.sh": (b"echo\n", 0o755)}


@pytest.mark.parametrize("name", ["../lib/a.c", "lib/../../a.c"])
def test_a_patch_may_not_leave_the_tree(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="outside of the tree"):
        apply_patches(tree(tmp_path), patches(tmp_path, diff(10, "line 10", "ten", name=name)))
