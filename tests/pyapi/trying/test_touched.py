"""Which code a patch changes, and which experiments exercise it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.api import list_experiments
from mqlab.kernels.patch_file import read_patches
from mqlab.model import Experiment
from mqlab.trying.touched import UNKNOWN, Change, changes_of, pick_experiments, pick_for


def changes(folder: Path, text: str) -> list[Change]:
    path = folder / "p.diff"
    path.write_text(text)
    return changes_of(read_patches(path).patches)


def test_the_function_is_the_one_around_the_change_not_the_one_before_it(tmp_path: Path) -> None:
    text = (
        "--- a/block/x.c\n+++ b/block/x.c\n"
        "@@ -10,9 +10,10 @@ static int first(struct s *s,\n"
        " \tint a;\n-\told();\n+\tnew();\n }\n \n static bool second(int x)\n {\n"
        "+\tmore(x);\n \treturn x;\n }\n \n"
        "@@ -90,3 +91,4 @@ struct table {\n \tint a;\n+\tint b;\n };\n \n"
    )
    assert changes(tmp_path, text) == [
        Change("block/x.c", ""),
        Change("block/x.c", "first"),
        Change("block/x.c", "second"),
    ]


def test_calls_and_macros_are_no_definitions(tmp_path: Path) -> None:
    text = (
        "--- a/x.c\n+++ b/x.c\n@@ -1,4 +1,6 @@\n EXPORT_SYMBOL(before);\n+DEFINE_SRCU(some_srcu);\n"
        " int declared(void);\n \n+#define N 1\n int last;\n"
    )
    assert changes(tmp_path, text) == [Change("x.c", UNKNOWN)]  # the diff has no heading
    assert changes(tmp_path, f"diff --git a/x.c b/x.c\n{text}") == [Change("x.c", "")]  # git would give one


def test_where_the_diff_does_not_tell_the_function_any_of_the_file_may_be_meant(waits: Experiment) -> None:
    part = experiment_like(waits, "part", "block/a.c:free_*")
    other = experiment_like(waits, "other", "block/b.c")
    picks = pick_experiments([Change("block/a.c", UNKNOWN)], [part, other])
    assert [pick.reason() for pick in picks] == ["the series touches block/a.c"]


def experiment_like(waits: Experiment, id_: str, *code: str) -> Experiment:
    from dataclasses import replace

    return replace(waits, id=id_, code=code)


def test_experiments_are_picked_by_file_and_function(waits: Experiment) -> None:
    whole = experiment_like(waits, "whole", "block/*")
    part = experiment_like(waits, "part", "block/a.c:free_*, alloc_*")
    none = experiment_like(waits, "none")
    all_ = [whole, part, none]

    def picked(*found: Change) -> list[str]:
        return [pick.experiment.id for pick in pick_experiments(found, all_)]

    assert picked(Change("block/a.c", "free_tags")) == ["whole", "part"]
    assert picked(Change("block/a.c", "get_tag")) == ["whole"]
    assert picked(Change("block/sub/b.c", "")) == ["whole"]
    assert picked(Change("mm/slab.c", "kmalloc")) == ["whole", "part", "none"]  # known to none: all
    reasons = [pick.reason() for pick in pick_experiments([Change("mm/slab.c", "f")], all_)]
    assert all("so all are run" in reason for reason in reasons)
    (pick, _) = pick_experiments([Change("block/a.c", "free_x")], [whole, part])
    assert pick.reason() == "the series touches free_x() in block/a.c"


def test_what_the_user_asks_for_is_run_whatever_it_touches(tmp_path: Path) -> None:
    path = tmp_path / "p.diff"
    path.write_text("--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-a\n+b\n")
    (pick,) = pick_for(read_patches(path).patches, ["tags-srcu"])
    assert pick.experiment.id == "tags-srcu"
    assert pick.reason().startswith("asked for")


@pytest.mark.parametrize(
    ("path", "function", "expected"),
    [
        ("block/blk-mq.c", "blk_mq_free_tag_set", {"tags-srcu"}),
        ("drivers/nvme/host/core.c", "nvme_remove_namespaces", {"nvme-ns-remove"}),
        ("block/blk-mq.c", "blk_mq_rq_cache_fill", {"plug-batch"}),
        ("block/blk-mq.c", "blk_mq_unquiesce_queue", {"quiesce-rt"}),
        ("block/genhd.c", "del_gendisk", {"tags-srcu", "nvme-ns-remove"}),
    ],
)
def test_the_shipped_experiments_know_their_code(path: str, function: str, expected: set[str]) -> None:
    picks = pick_experiments([Change(path, function)], list_experiments())
    assert {pick.experiment.id for pick in picks} == expected
