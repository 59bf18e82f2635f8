"""A whole trial, on a kernel that builds in a second and guests that are played."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_kernel import change_return, run_git

from mqlab.errors import UsageError
from mqlab.kernels.cache import KernelCache
from mqlab.records import RunSpec
from mqlab.store import open_store_at
from mqlab.trying import Trial, plan_trial, try_series
from mqlab.vm.boot import GuestError

from .conftest import Stage, no_device, oops, unknown_workload


def try_it(stage: Stage, *patches: Path, **more: Any) -> Trial:
    """The patches one after the other in one file."""
    series = stage.folder / "series.mbox"
    subject = "Subject: [PATCH {n}/{of}] block: change {n}\n\n"
    texts = [subject.format(n=n, of=len(patches)) + p.read_text() for n, p in enumerate(patches, start=1)]
    series.write_text("\n".join(texts))
    source = f"tree:{stage.repository}@v1"
    return try_series(series, **{"source": source, "experiments": [stage.experiment], **more})


def good(stage: Stage, unit: str = "two") -> Path:
    return change_return(stage.folder / f"{unit}.diff", unit, "2")


def test_a_series_is_measured_before_and_after(stage: Stage) -> None:
    trial = try_it(stage, good(stage), label="mine")
    assert (trial.verdict, trial.exit_status) == ("improved", 0)
    exact, timed = trial.rows
    assert exact.values == {"base": 4.0, "series": 1.0}
    assert (exact.case, exact.ratio("series")) == ("exact-200", 0.25)  # small by default, and named so
    assert (timed.case, timed.verdict) == ("timed", "improved")
    seen = stage.targets[0].seen
    assert seen.count(("exact-200", "base", 1)) == 1
    assert len([s for s in seen if s[0] == "timed"]) == 8  # four boots a side
    assert trial.kernels["series"].patch_ids == tuple(p.id for p in trial.patches)
    assert trial.kernels["base"].patch_ids == ()
    assert [record.label for record in open_store_at(None).results()] == ["mine"]


def test_the_table_is_for_a_commit_message(stage: Stage) -> None:
    table = try_it(stage, good(stage)).table()
    lines = table.splitlines()
    assert all(len(line) <= 75 and (not line or line.startswith("  ")) for line in lines)
    assert table.isascii()
    assert lines[0] == "  block: change 1"
    assert any(line.split() == ["wait_ms", "[ms]", "4.000", "1.000", "0.250", "improved"] for line in lines)
    assert "Verdict: improved (2 improved;" in " ".join(table.split())


def test_each_patch_has_a_column_where_asked_for(stage: Stage) -> None:
    waits = {"base": 4.0, "patch 1": 3.0, "series": 3.0}
    stage.behave = lambda spec: waits[spec.variant]
    trial = try_it(stage, good(stage), good(stage, "one"), per_patch=True)
    assert trial.sides == ("base", "patch 1", "series")
    assert trial.rows[0].values == waits
    heads = [line.split() for line in trial.table().splitlines() if line.startswith("  waits")]
    assert heads == [["waits", "base", "patch", "1", "series"]]


def test_a_regression_is_status_1_and_no_change_0(stage: Stage) -> None:
    stage.behave = lambda spec: 4.0 if spec.variant == "base" else 8.0
    assert (try_it(stage, good(stage)).verdict, try_it(stage, good(stage)).exit_status) == ("regressed", 1)
    stage.behave = lambda _spec: 4.0
    assert (try_it(stage, good(stage)).verdict, try_it(stage, good(stage)).exit_status) == ("no change", 0)


def test_a_small_change_must_be_more_than_what_other_seeds_do(stage: Stage) -> None:
    def by_seed(spec: RunSpec) -> float:
        return (4.0 + 0.2 * (spec.seed - 1)) * (1.05 if spec.variant == "series" else 1.0)

    stage.behave = by_seed
    (exact, _) = try_it(stage, good(stage)).rows
    assert exact.verdict == "no change"
    assert exact.margin == pytest.approx(0.1)
    assert exact.reason == "other seeds alone change base by 10.0 %"
    stage.behave = lambda spec: 4.2 if spec.variant == "series" else 4.0
    (exact, _) = try_it(stage, good(stage)).rows
    assert (exact.verdict, exact.margin) == ("regressed", 0.02)


def test_a_series_that_does_not_apply_names_the_hunk_before_anything_is_built(stage: Stage) -> None:
    bad = stage.folder / "bad.diff"
    bad.write_text(good(stage).read_text().replace("-\treturn NUMBER;", "-\treturn OTHER;"))
    trial = try_it(stage, bad)
    assert (trial.verdict, trial.exit_status) == ("does not apply", 2)
    assert "hunk 1 on block/two.c" in trial.findings[0].what
    assert "-\treturn OTHER;" in trial.evidence()
    assert KernelCache().names() == []
    assert stage.targets == []


def test_a_series_that_does_not_build_shows_the_compiler(stage: Stage) -> None:
    trial = try_it(stage, change_return(stage.folder / "p.diff", "two", "undeclared"))
    assert (trial.verdict, trial.exit_status) == ("does not build", 1)
    assert "block/two.c:7" in trial.evidence()
    assert "series does not build" in trial.table()


def test_a_base_that_does_not_build_is_not_the_series_fault(stage: Stage) -> None:
    (stage.repository / "block/one.c").write_text("broken\n")
    run_git(stage.repository, "commit", "-qam", "broken")
    trial = try_it(stage, good(stage), source=f"tree:{stage.repository}@main")
    assert (trial.verdict, trial.exit_status) == ("base does not build", 4)


def test_an_oops_only_after_is_a_regression_with_its_text_and_no_row_is_missing(stage: Stage) -> None:
    stage.behave = oops
    trial = try_it(stage, good(stage))
    assert (trial.verdict, trial.exit_status) == ("breaks", 1)
    assert "RIP: 0010:blk_mq_free_tag_set" in trial.evidence()
    exact, timed = trial.rows
    assert exact.values == {"base": 4.0, "series": None}
    assert (exact.verdict, timed.verdict) == ("regressed", "no change")
    assert "broke (oops)" in exact.reason


def break_with(sides: set[str], where: str) -> Callable[[RunSpec], float]:
    def behave(spec: RunSpec) -> float:
        if spec.variant in sides:
            raise GuestError(
                f"the guest's kernel broke (panic) in: {where}", "", "Kernel panic - not syncing"
            )
        return 4.0

    return behave


def test_a_kernel_that_does_not_boot_is_told_from_one_that_breaks_later(stage: Stage) -> None:
    stage.behave = break_with({"series"}, "the kernel's own start")
    trial = try_it(stage, good(stage))
    assert (trial.verdict, trial.exit_status) == ("does not boot", 1)
    assert "Kernel panic" in trial.evidence()
    stage.behave = break_with({"base", "series"}, "the kernel's own start")
    trial = try_it(stage, good(stage))
    assert (trial.verdict, trial.exit_status) == ("base does not boot", 4)
    stage.behave = break_with({"base", "series"}, "the workload")
    assert try_it(stage, good(stage)).exit_status == 4


def test_what_no_guest_can_do_is_shown_with_the_reason(stage: Stage) -> None:
    stage.behave = no_device
    trial = try_it(stage, good(stage))
    assert [row.verdict for row in trial.rows] == ["inconclusive", "inconclusive"]
    assert all("no such device" in row.reason for row in trial.rows)
    assert trial.exit_status == 4


def test_a_run_that_fails_otherwise_is_a_row_with_the_reason_too(stage: Stage) -> None:
    stage.behave = unknown_workload
    trial = try_it(stage, good(stage))
    assert [row.values["base"] for row in trial.rows] == [None, 4.0]
    assert "unknown workload" in trial.rows[0].reason


def test_commits_of_a_git_tree_are_a_series(stage: Stage) -> None:
    for unit in ("one", "two"):
        path = stage.repository / f"block/{unit}.c"
        path.write_text(path.read_text().replace("NUMBER", "7"))
        run_git(stage.repository, "commit", "-qam", f"block: {unit} is seven")
    trial = try_series(stage.repository, "v1..HEAD", experiments=[stage.experiment])
    assert [patch.title() for patch in trial.patches] == ["block: one is seven", "block: two is seven"]
    assert trial.source.startswith(f"tree:{stage.repository}@v1")
    assert trial.exit_status == 0
    with pytest.raises(UsageError, match="holds no commit"):
        try_series(stage.repository, "HEAD..HEAD")
    with pytest.raises(UsageError, match="give the commits too"):
        try_series(stage.repository)
    with pytest.raises(UsageError, match="no range"):
        try_series(stage.repository, "HEAD")


def test_a_plan_measures_nothing(stage: Stage) -> None:
    patch = good(stage)
    plan = plan_trial(patch, source=f"tree:{stage.repository}@v1", experiments=[stage.experiment])
    assert [boots for _, boots in plan.boots] == [2, 8]
    assert len(plan.builds) == 2
    assert plan.seconds > 0
    assert KernelCache().names() == []


def test_the_whole_as_json(stage: Stage) -> None:
    document = json.loads(json.dumps(try_it(stage, good(stage)).to_dict()))
    assert document["schema"] == "mqlab.try/1"
    assert document["verdict"] == "improved"
    assert document["rows"][0]["ratios"] == {"series": 0.25}
    assert document["patches"][0]["files"] == ["block/two.c"]


def test_a_setting_that_no_case_takes_is_refused(stage: Stage) -> None:
    with pytest.raises(UsageError, match="takes colour"):
        try_it(stage, good(stage), params={"colour": 1})
    trial = try_it(stage, good(stage), params={"devices": 30})
    assert trial.rows[0].case == "exact-30"
