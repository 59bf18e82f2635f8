"""mqlab.run and mqlab.reproduce, on the formula target."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqlab
from mqlab import measuring
from mqlab.errors import UnsupportedError, UsageError
from mqlab.model import Case, Experiment
from mqlab.records import RunSpec

pytestmark = pytest.mark.usefixtures("formula")

OWN = '''
import mqlab


@mqlab.workload
def count_up(spec):
    """Adds numbers."""
    return {"sum_count": [sum(range(spec.params["n"]))]}


@mqlab.experiment
def adding():
    """Is adding twice as many twice the sum?"""
    return mqlab.Experiment(
        id="adding",
        title="adding up",
        variants=(mqlab.Variant("plain", "a loop", {}),),
        cases=(mqlab.Case("small", "count_up", {"n": 5}),),
        metrics=(mqlab.Metric("sum_count", "count", "higher"),),
        parameters=(mqlab.Parameter("n", "how many", "", 1, 100),),
    )
'''


def test_a_run_gives_a_tidy_frame(waits: Experiment) -> None:
    result = mqlab.run(waits, target="formula", runs=2)
    frame = result.frame()
    assert list(frame.columns) == [
        "experiment", "variant", "case", "metric", "unit", "direction", "target", "run", "sample", "value",
        "hz", "count",
    ]  # fmt: skip
    assert len(frame) == 2 * 2 * (5 + 1 + 50 + 1)
    assert set(frame["experiment"]) == {"waits"}
    assert set(frame["unit"]) == {"ms"}
    short = frame[
        (frame["case"] == "short") & (frame["metric"] == "wait_ms") & (frame["variant"] == "before")
    ]
    assert list(short["sample"]) == [0, 1, 2, 3, 4] * 2
    assert list(short["run"]) == [0] * 5 + [1] * 5
    assert set(short["count"]) == {5}
    assert short["value"].between(3.9, 4.1).all()
    assert not frame.isna().any().any()


def test_the_same_seed_gives_the_same_samples(waits: Experiment) -> None:
    one, two, other = (
        mqlab.run(waits, target="formula", seed=seed).frame()["value"].tolist() for seed in (5, 5, 6)
    )
    assert one == two != other


def test_a_result_is_stored_as_it_was_returned(waits: Experiment) -> None:
    result = mqlab.run(waits, target="formula", label="mine")
    with mqlab.open_store() as store:
        (stored,) = store.results()
        assert (stored.label, stored.partial, stored.runs) == ("mine", False, 12)
        assert mqlab.load_result(store, stored.id) == result
    mqlab.run(waits, target="formula", store=False)
    with mqlab.open_store() as store:
        assert len(store.results()) == 1


def test_a_result_is_immutable(waits: Experiment) -> None:
    result = mqlab.run(waits, target="formula", store=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.record = result.record  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        result.runs[0].samples["wait_ms"][0] = 1


def test_the_json_of_a_run_has_every_sample(waits: Experiment) -> None:
    result = mqlab.run(waits, target="formula", runs=2, store=False)
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert (document["schema"], document["experiment"], document["target"]) == (
        "mqlab.run/1",
        "waits",
        "formula",
    )
    assert document["fingerprint"] == {"target": "formula", "kernel": "none"}
    first = document["results"][0]
    assert {k: first[k] for k in ("variant", "case", "metric", "unit", "direction")} == {
        "variant": "before", "case": "short", "metric": "wait_ms", "unit": "ms", "direction": "lower",
    }  # fmt: skip
    assert first["params"] == {"hz": 1000, "count": 5}
    assert [len(run) for run in first["runs"]] == [5, 5]
    assert len(document["results"]) == 2 * 2 * 2


def test_settings_variants_and_cases_reach_the_target(waits: Experiment, formula: Callable[[], Any]) -> None:
    mqlab.run(waits, target="formula", runs=1, params={"count": 3}, variants=["after"], cases=["long"])
    target = formula()
    (spec,) = target.seen
    assert (spec.case, spec.variant, spec.params["count"], spec.seed) == ("long", "after", 3, 1)
    assert json.loads(spec.to_json())["policies"] == {"wait": "off"}
    assert target.closed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"id": "no-such"}, "no experiment is called 'no-such'"),
        ({"target": "moon"}, "no target is called 'moon'"),
        ({"runs": 0}, "runs=0 is not allowed"),
        ({"seed": -1}, "seed=-1 is not allowed"),
        ({"params": {"count": -5}}, "count=-5 is not allowed"),
        ({"variants": ["other"]}, "no variant of waits is called 'other'"),
        ({"cases": ["other"]}, "no case of waits is called 'other'"),
        ({"store": "/dev/null/x"}, "cannot open the store"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(
    waits: Experiment, call: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        mqlab.run(**{"id": waits, "target": "formula", **call})
    with mqlab.open_store() as store:
        assert store.results() == ()


def test_a_case_that_cannot_be_done_is_skipped_and_stored_so(waits: Experiment) -> None:
    more = dataclasses.replace(waits, cases=(*waits.cases, Case("odd", "unable", {})))
    result = mqlab.run(more, target="formula", runs=1)
    assert {(s.case, s.variant, s.reason) for s in result.skips} == {
        ("odd", "before", "no such device here"),
        ("odd", "after", "no such device here"),
    }
    with mqlab.open_store() as store:
        assert mqlab.load_result(store, 1) == result
    assert [s["remedy"] for s in result.to_dict()["skipped"]] == ["plug one in"] * 2


def test_ctrl_c_raises_with_what_was_measured_and_stores_it(
    waits: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = measuring.carry_out

    def broken_off(plan: Any, target: Any, **options: Any) -> Any:
        done = real(plan[:3], target, **options)
        return dataclasses.replace(done, interrupted=True)

    monkeypatch.setattr(measuring, "carry_out", broken_off)
    with pytest.raises(mqlab.Interrupted) as caught:
        mqlab.run(waits, target="formula")
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.result.partial
    with mqlab.open_store() as store:
        assert mqlab.load_result(store, 1) == caught.value.result


def test_an_experiment_of_ones_own_is_a_page_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    result = mqlab.run(str(path), target=None, runs=2, params={"n": 4})
    assert result.target == "native"
    assert result.definition.question == "Is adding twice as many twice the sum?"
    assert result.values("small", "plain", "sum_count") == [6, 6]
    assert "adding" in {e.id for e in mqlab.list_experiments(path)}
    assert mqlab.run(f"{path}:adding", target="native", runs=1).experiment == "adding"
    assert any(r.fingerprint["target"] == "native" for r in result.runs)


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    assert mqlab.run(str(path), target="native", runs=1).definition.title == "adding up"
    path.write_text(OWN.replace("adding up", "summing up all"))
    assert mqlab.run(str(path), target="native", runs=1).definition.title == "summing up all"


def test_real_time_in_python_does_not_run_in_the_sim(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("adding", "adding_too").replace("count_up", "count_too"))
    profile = tmp_path / "empty.toml"
    profile.write_text("")
    result = mqlab.run(str(path), target="sim", runs=1, profile=str(profile))
    assert "does not run on sim" in result.skips[0].reason
    assert result.runs == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1\n", "holds no experiment"),
        ("def f(:\n", "does not load"),
        ("import no_such_module_anywhere\n", "line 1"),
        ("\n\n1 / 0\n", "line 3: ZeroDivisionError"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(content)
    with pytest.raises(UsageError, match=message) as caught:
        mqlab.run(str(path))
    assert str(path) in caught.value.message
    with pytest.raises(UsageError, match="there is no file"):
        mqlab.run(str(tmp_path / "missing.py"))


def test_two_experiments_of_one_id_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text(OWN.replace('id="adding"', 'id="tags-srcu"').replace("count_up", "count_twice"))
    with pytest.raises(UsageError, match="two experiments are called 'tags-srcu'"):
        mqlab.list_experiments(path)


def test_a_workload_that_returns_no_samples_is_refused(waits: Experiment) -> None:
    @mqlab.workload
    def returns_nothing(_spec: RunSpec) -> Any:
        return None

    bad = dataclasses.replace(waits, cases=(Case("c", "returns_nothing", {}),), parameters=())
    with pytest.raises(UsageError, match="returned no samples"):
        mqlab.run(bad, target="native", runs=1)
    with pytest.raises(UsageError, match="use native, sim or both"):
        mqlab.workload(targets=("moon",))(lambda _spec: {})
    unknown = dataclasses.replace(waits, cases=(Case("c", "not_there", {}),))
    with pytest.raises(UsageError, match="unknown workload 'not_there'"):
        mqlab.run(unknown, target="native", runs=1)


def test_reproduce_gives_every_row_with_a_reason_for_what_was_not_measured() -> None:
    reproduction = mqlab.reproduce("plug-batch", target="formula", runs=1)
    frame = reproduction.frame()
    assert list(frame.columns) == [
        "thread", "row", "condition", "metric", "unit", "direction", "target", "published_before",
        "published_after", "measured_before", "measured_after", "published_ratio", "measured_ratio",
        "effect_error", "before_error", "basis", "status", "reason", "sim_before", "sim_after", "counts",
        "notes",
    ]  # fmt: skip
    assert len(frame) == 8
    assert (frame["status"] == "skipped").all()
    assert frame["reason"].str.len().gt(0).all()
    document = json.loads(json.dumps(reproduction.to_dict(), allow_nan=False))
    assert document["schema"] == "mqlab.reproduce/1"
    assert document["rows"][0]["measured_before"] is None
    with mqlab.open_store() as store:
        assert mqlab.load_reproduction(store, 1) == reproduction
    assert "skipped" in reproduction._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"ids": ["tags-srcux"]}, "no thread is called 'tags-srcux'"),
        ({"params": {"hzz": 1}}, "unknown parameter 'hzz'"),
        ({"thread_files": "/no/such/folder"}, "cannot read the thread file"),
        ({"profile": "nosuch", "target": "sim"}, "no profile is called 'nosuch'"),
    ],
)
def test_reproduce_refuses_bad_input(call: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mqlab.reproduce(**{"target": "formula", "runs": 1, **call})


def test_figures_that_are_not_in_the_thread_file_are_remarked(tmp_path: Path) -> None:
    (tmp_path / "quiesce-rt.txt").write_text("nothing of the kind")
    reproduction = mqlab.reproduce("quiesce-rt", target="formula", runs=1, thread_files=tmp_path)
    assert "throughput" in reproduction.remarks[0]


def test_a_policy_that_no_workload_knows_is_refused() -> None:
    experiment = mqlab.list_experiments()[0]
    assert experiment.thread
    odd = dataclasses.replace(
        experiment,
        cases=(Case("c", "random_draws", {}),),
        rows=(),
        curves=(),
    )
    with pytest.raises(UsageError, match="no workload has a policy"):
        mqlab.run(odd, target="formula")


def test_each_case_of_the_shipped_experiments_runs_alone() -> None:
    """A variant's policies are those of all cases: one case alone has workloads that know only some."""
    for experiment in mqlab.list_experiments():
        for case in experiment.cases:
            result = mqlab.run(experiment.id, target="formula", cases=[case.id], runs=1, store=False)
            assert {run.case for run in result.runs} == {case.id}


@pytest.mark.parametrize(
    ("id_", "given"),
    [
        (3, {}),
        (["tags-srcu"], {}),
        ("tags-srcu", {"params": {"hz": None}}),
        ("tags-srcu", {"params": {"hz": [250]}}),
        ("tags-srcu", {"params": {"hz": 10**400}}),
        ("tags-srcu", {"store": 3}),
    ],
)
def test_what_has_the_wrong_type_is_refused_like_any_other_value(id_: Any, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        mqlab.run(id_, **{"target": "formula", "runs": 1, "store": False, **given})


def test_one_case_or_variant_needs_no_list_and_a_file_may_be_a_path(tmp_path: Path) -> None:
    result = mqlab.run(
        "tags-srcu", target="formula", runs=1, store=False, cases="ublk-1000-serial", variants="before"
    )
    assert {(run.case, run.variant) for run in result.runs} == {("ublk-1000-serial", "before")}
    with pytest.raises(UsageError, match="there is no file"):
        mqlab.run(tmp_path / "none.py")


def test_a_result_at_the_prompt_is_one_line() -> None:
    reproduction = mqlab.reproduce("tags-srcu", target="formula", runs=1, store=False)
    assert "\n" not in repr(reproduction)
    assert repr(reproduction).startswith("<Reproduction tags-srcu: ")
    assert repr(reproduction.results[0]).startswith("<Result tags-srcu: target formula, ")


def test_unsupported_is_an_error_of_its_own_kind() -> None:
    assert UnsupportedError("x").kind == "unsupported"


def test_the_list_is_shown_as_a_table() -> None:
    found = mqlab.list_experiments()
    assert isinstance(found, tuple)
    assert "tags-srcu: one SRCU instance" in repr(found)
    assert list(found.frame()["id"]) == [e.id for e in found]
    assert "<table" in found._repr_html_()
