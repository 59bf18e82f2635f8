from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqlab
from mqlab.errors import UsageError
from mqlab.guest import Guest, GuestRow
from mqlab.model import Case, Experiment, Metric, RowMap, Variant
from mqlab.parameters import Parameter, Scalar


@pytest.mark.parametrize(
    ("settings", "message", "remedy"),
    [
        ({"hzz": 250}, "unknown parameter 'hzz'", "did you mean hz?"),
        ({"count": -1}, "count=-1", "a whole number from 1 to 1000"),
        ({"count": "0"}, "count='0'", "a whole number from 1 to 1000"),
        ({"count": "2147483648"}, "count=", "from 1 to 1000"),
        ({"count": "1e3"}, "count='1e3'", "a whole number"),
        ({"count": 2.5}, "count=2.5", "a whole number"),
        ({"count": ""}, "count=''", "a whole number"),
        ({"count": True}, "count=True", "a whole number"),
        ({"count": "five"}, "'five' is no number", "10"),
        ({"hz": "250ms"}, "no unit for a value in Hz", "kHz"),
        ({"hz": float("nan")}, "hz=nan", "from 100 to 1000 Hz"),
        ({"hold_ms": 5}, "no case of waits takes hold_ms", "mqlab show"),
        ({"kind": "ftp"}, "kind='ftp'", "tcp or loop"),
    ],
)
def test_a_bad_setting_is_refused_with_what_is_allowed(
    waits: Experiment, settings: dict[str, Scalar], message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        waits.with_settings(settings)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_settings_reach_the_cases_that_take_them(waits: Experiment) -> None:
    changed = waits.with_settings({"hz": "0.25kHz", "count": "7"})
    assert [c.params for c in changed.cases] == [{"hz": 250, "count": 7}] * 2
    assert waits.cases[0].params == {"hz": 1000, "count": 5}


@given(st.integers() | st.floats() | st.text(max_size=6))
def test_a_parameter_never_lets_anything_out_of_its_range_pass(value: Scalar) -> None:
    parameter = Parameter("count", "waits", "", 1, 1000)
    try:
        read = parameter.read(value)
    except UsageError as error:
        assert error.message  # noqa: PT017
        return
    assert isinstance(read, int)
    assert 1 <= read <= 1000


def test_selecting_keeps_the_order_and_drops_rows_that_cannot_be_measured(waits: Experiment) -> None:
    with_rows = dataclasses.replace(
        waits,
        rows=(
            RowMap("a", "short", "wait_ms", "before", "after"),
            RowMap("b", "long", "wait_ms", "before", ""),
        ),
    )
    assert [v.id for v in with_rows.selected(["after", "before"]).variants] == ["before", "after"]
    assert [r.row for r in with_rows.selected(["before"]).rows] == ["b"]
    assert [c.id for c in with_rows.selected(cases=["long"]).cases] == ["long"]
    with pytest.raises(UsageError, match="no variant of waits is called 'befor'"):
        with_rows.selected(["befor"])


def test_an_experiment_reads_back_from_json() -> None:
    for experiment in mqlab.list_experiments():
        assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment


def _minimal(**changes: object) -> Experiment:
    fields: dict[str, object] = {
        "id": "x",
        "title": "x",
        "variants": (Variant("a", "a", {}),),
        "cases": (Case("c", "w", {}),),
        "metrics": (Metric("m_ms", "ms", "lower"),),
    }
    return Experiment(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variants": ()}, "lacks variants"),
        ({"variants": (Variant("a", "", {}), Variant("a", "", {}))}, "more than one variant 'a'"),
        ({"cases": (Case("c", "w", {}, "", ("b",)),)}, "unknown variants"),
        ({"metrics": (Metric("m", "ms", "down"),)}, "no direction"),  # type: ignore[arg-type]
        ({"rows": (RowMap("r", "d", "m_ms", "a", "a"),)}, "unknown case"),
        ({"rows": (RowMap("r", "c", "n_ms", "a", "a"),)}, "unknown metric"),
        ({"rows": (RowMap("r", "c", "m_ms", "a", "b"),)}, "unknown variant"),
        ({"rows": (RowMap("r", "c", "m_ms", "", ""),)}, "measures no side"),
        ({"rows": (RowMap("r", "c", "m_ms", "a", "a", "p42"),)}, "statistic"),
        ({"rows": (RowMap("r", "c", "m_ms", "a", "a", guest=GuestRow(case="d")),)}, "unknown case"),
        ({"rows": (RowMap("r", "c", "m_ms", "a", "a", counts=("calls",)),)}, "unknown metric"),
        ({"cases": (Case("c", "w", {}, guest=Guest("g", {}, takes=("n",))),)}, "hands 'n' to a guest"),
        ({"cases": (Case("c", "w", {}, guest=Guest("g", {}, clock="real")),)}, "does not say why"),
        (
            {"cases": (Case("c", "w", {}, guest=Guest("g", {}, devices=("nvme",))),)},
            "emulated devices, which run in the host's time",
        ),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _minimal(**changes)


def test_the_decorator_makes_an_experiment_and_takes_the_docstring_as_question() -> None:
    @mqlab.experiment
    def asked() -> Experiment:
        """Is it
        faster?"""
        return _minimal()

    assert asked.question == "Is it faster?"
    with pytest.raises(UsageError, match="returned NoneType"):
        mqlab.experiment(lambda: None)  # type: ignore[arg-type, return-value]


def test_a_row_on_a_real_kernel_differs_only_in_what_is_said() -> None:
    row = RowMap("r", "fast", "m_ms", "a", "b", "p99", after_case="slow")
    assert row.on_kernel() == row
    there = dataclasses.replace(row, guest=GuestRow(case="small", before="c")).on_kernel()
    assert (there.case, there.after_case, there.before, there.after) == ("small", "", "c", "b")
    assert (there.metric, there.statistic) == ("m_ms", "p99")
    assert there.on_kernel() == there


def test_a_row_whose_case_on_a_real_kernel_was_not_chosen_says_so() -> None:
    chosen = mqlab.list_experiments()[1].selected(["before", "patch"], ["gen4-ssd"])
    assert [r.guest.reason for r in chosen.rows if r.row == "alloc-cpu-share" and r.guest] == [
        "its case on a real kernel was not chosen"
    ]


def test_definitions_cannot_be_changed(waits: Experiment) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        waits.id = "other"  # type: ignore[misc]
