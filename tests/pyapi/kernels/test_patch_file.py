"""Patches from files of every form that developers have them in."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from mqlab.errors import UsageError
from mqlab.kernels.patch_file import PatchSelection, parse_numbers, read_patches

STAT = " lib/a.c | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
DIFF = (
    "diff --git a/lib/a.c b/lib/a.c\n"
    "index 1111111..2222222 100644\n"
    "--- a/lib/a.c\n"
    "+++ b/lib/a.c\n"
    "@@ -1,5 +1,5 @@ int top(void)\n"
    " {\n"
    " \tint one;\n"
    "-\treturn 1;\n"
    "+\treturn 2;\n"
    " \n"
    " }\n"
)
SECOND = (
    "diff --git a/lib/b.c b/lib/b.c\n"
    "--- a/lib/b.c\n"
    "+++ b/lib/b.c\n"
    "@@ -10,2 +10,3 @@\n"
    " \tfirst();\n"
    "+\t--count;\n"
    " \tlast();\n"
)


def message(subject: str, body: str) -> str:
    return f"{subject}\n\n[Somebody]\n\nWords about it.\n---\n{STAT}\n{body}\n-- \n2.43.0\n\n"


def quoted(text: str, mark: str, *, stuffed: bool = False) -> str:
    lines = []
    for line in text.splitlines():
        pad = " " if stuffed and line.startswith(" ") else ""
        lines.append(f"{mark}{pad}{line}")
    return "\n".join(lines) + "\n"


def write(folder: Path, text: str, name: str = "thread.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_thread_gives_each_diff_once_in_order(tmp_path: Path) -> None:
    answer = f"Re: [PATCH 1/2] a: two\n\n[Reviewer]\n\n{quoted(DIFF, '> ', stuffed=True)}\nLooks good.\n\n"
    thread = message("[PATCH 1/2] a: two", DIFF) + answer + message("[PATCH 2/2] b: count", SECOND)
    found = read_patches(write(tmp_path, thread))
    assert [(p.number, p.title(), p.files()) for p in found.patches] == [
        (1, "a: two", ["lib/a.c"]),
        (2, "b: count", ["lib/b.c"]),
    ]
    assert found.patches[0].text() == DIFF
    assert found.patches[1].text() == SECOND  # the line "--count" is no end of the hunk
    assert found.cut == ()


def test_a_quoted_stuffed_patch_is_restored(tmp_path: Path) -> None:
    body = quoted(STAT + "\n" + DIFF, ">> ", stuffed=True)
    found = read_patches(write(tmp_path, f"Subject: Re: [PATCH] a: two\n times\n\n{body}>\n>What is it?\n"))
    assert found.patches[0].text() == DIFF
    assert found.patches[0].title() == "a: two times"
    assert found.posted() == list(found.patches)  # nothing but the answer is there


def test_context_that_is_indented_by_spaces_is_not_stuffed(tmp_path: Path) -> None:
    diff = "--- a/x.yml\n+++ b/x.yml\n@@ -1,2 +1,3 @@\n   one: 1\n+  two: 2\n   three: 3\n"
    thread = f"[PATCH] x: two\n\n[Somebody]\n\n---\n x.yml | 1 +\n\n{diff}-- \n2.43.0\n"
    assert read_patches(write(tmp_path, thread)).patches[0].text() == diff


def test_a_cut_copy_is_dropped_where_there_is_a_whole_one(tmp_path: Path) -> None:
    cut = quoted("\n".join(DIFF.splitlines()[:7]), "> ")
    answer = f"Re: [PATCH] a: two\n\n[Reviewer]\n\n{cut}\nWhy one?\n"
    assert read_patches(write(tmp_path, answer + message("[PATCH] a: two", DIFF))).cut == ()
    found = read_patches(write(tmp_path, answer + message("[PATCH] b: count", SECOND)))
    assert [p.subject for p in found.cut] == ["Re: [PATCH] a: two"]
    with pytest.raises(UsageError, match=r"is cut: lib/a\.c ends within @@ -1,5"):
        read_patches(write(tmp_path, answer))


def test_the_newest_version_is_what_a_file_posts(tmp_path: Path) -> None:
    better = DIFF.replace("return 2", "return 3")
    suggestion = "Re: [PATCH] x\n\n[Reviewer]\n\nRather:\n\n" + SECOND.replace("--count", "++count") + "\n"
    thread = (
        message("[PATCH 2/2] b: count", SECOND)
        + message("[PATCH 1/2] a: two", DIFF)
        + suggestion
        + message("[PATCH v2 2/2] b: count", SECOND.replace("count", "counter"))
        + message("[PATCH v2 1/2] a: three", better)
    )
    found = read_patches(write(tmp_path, thread))
    assert len(found.patches) == 5
    assert [p.title() for p in found.posted()] == ["a: three", "b: count"]
    assert [p.number for p in found.chosen((1, 3))] == [1, 3]
    with pytest.raises(UsageError, match="has no patch 6: it holds 5"):
        found.chosen((6,))


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *(part for key in ("user.name", "user.email") for part in ("-c", f"{key}=x")), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout


def test_what_git_writes_is_read_in_every_form(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "one\ntwo\n", "f")
    write(tmp_path, "\n".join(map(str, range(40))) + "\n", "old")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    write(tmp_path, "one\nzwölf\n", "f")
    git(tmp_path, "mv", "old", "new")
    git(tmp_path, "commit", "-qam", "f: twelve")
    write(tmp_path, "no newline", "added")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "added: a file")
    mbox = git(tmp_path, "format-patch", "--stdout", "HEAD~2")
    expected = [["f", "old", "new"], ["added"]]
    found = read_patches(write(tmp_path, mbox, "s.mbox"))
    assert [p.files() for p in found.patches] == expected
    assert [p.title() for p in found.patches] == ["f: twelve", "added: a file"]
    assert "rename to new" in found.patches[0].text()
    assert "\\ No newline at end of file" in found.patches[1].text()
    assert "+zwölf" in found.patches[0].text()
    (tmp_path / "s.gz").write_bytes(gzip.compress(mbox.encode()))
    assert [p.id for p in read_patches(tmp_path / "s.gz").patches] == [p.id for p in found.patches]
    bare = read_patches(write(tmp_path, git(tmp_path, "diff", "HEAD~1"), "bare.diff"))
    assert [(p.id, p.title()) for p in bare.patches] == [(found.patches[1].id, "added")]


def test_bytes_of_no_charset_survive(tmp_path: Path) -> None:
    data = DIFF.replace("one", "\xe9\f").encode("latin-1")
    (tmp_path / "latin.diff").write_bytes(data)
    patch = read_patches(tmp_path / "latin.diff").patches[0]
    assert patch.data() == data
    assert "\ufffd" in patch.text()


def test_an_encoded_mail_is_decoded(tmp_path: Path) -> None:
    body = DIFF.replace("=", "=3D").replace("return 2;", "return=\n 2;")
    head = "From: x\nSubject: [PATCH] a: two\nContent-Type: text/plain; charset=utf-8\n"
    mail = f"{head}Content-Transfer-Encoding: quoted-printable\n\n{body}"
    assert read_patches(write(tmp_path, mail)).patches[0].text() == DIFF


@pytest.mark.parametrize("text", ["", "no patch here\n", "--- a line\nof words\n", "\0\xff binary"])
def test_a_file_without_patches_is_refused_with_the_forms(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_patches(write(tmp_path, text))
    assert "mbox" in caught.value.remedy


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        PatchSelection(tmp_path / "none").patches()


@pytest.mark.parametrize(("text", "numbers"), [("1", (1,)), ("1-3", (1, 2, 3)), ("2,1", (2, 1))])
def test_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "x", "3-1", "1,,2"])
def test_what_are_no_numbers(text: str) -> None:
    with pytest.raises(UsageError):
        parse_numbers(text)


# What the four threads post: how many patches, and the files that each touches.
POSTED = {
    "tags-srcu": [
        ["block/blk-mq-tag.c", "block/blk-mq.c", "block/blk-mq.h", "include/linux/blk-mq.h"],
        ["block/blk-mq-tag.c", "block/blk-mq.c", "block/blk-mq.h"],
    ],
    "nvme-ns-remove": [["drivers/nvme/host/core.c"], ["block/genhd.c"]],
    "plug-batch": [["block/blk-mq.c"]],
    "quiesce-rt": [["block/blk-core.c", "block/blk-mq.c", "include/linux/blkdev.h"]],
}


@pytest.mark.kernels
@pytest.mark.parametrize("thread", POSTED)
def test_the_threads(thread: str) -> None:
    folder = os.environ.get("MQLAB_THREAD_FILES")
    if not folder:
        pytest.skip("MQLAB_THREAD_FILES does not name the folder with the thread files")
    found = read_patches(Path(folder) / f"{thread}.txt")
    assert [patch.files() for patch in found.posted()] == POSTED[thread]
    assert len(found.patches) == len(POSTED[thread])
    assert found.cut == ()
