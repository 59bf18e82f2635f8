"""Profiles, and which rows their costs move."""

from __future__ import annotations

from typing import ClassVar

import pytest

from mqlab import sensitivity, targets
from mqlab.errors import UsageError
from mqlab.model import Case, Experiment, Metric, RowMap, Variant
from mqlab.profiles import Profile, load_profile, parse_profile, profile_names
from mqlab.published import threads
from mqlab.records import RunSamples, RunSpec
from mqlab.targets import Basis

TEXT = """
title = "a machine"

[cost.wake_up]
value = 2.5
unit = "us"
source = "kernel fact"

[cost.add_disk]
value = 400
unit = "ns"
source = "fitted"
fitted_on = ["t/r1"]
"""


def test_times_are_handed_on_in_nanoseconds_and_fits_are_known() -> None:
    profile = parse_profile(TEXT, "p", "p.toml")
    assert profile.values() == {"wake_up": 2500.0, "add_disk": 400.0}
    assert profile.fitted_rows() == {"t/r1"}
    assert profile.scaled("wake_up", 1.1).values()["wake_up"] == pytest.approx(2750)
    assert profile.values()["wake_up"] == 2500.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = "kernel fact"\n', "", "cost.wake_up is not complete"),
        ("value = 2.5", "value = -1", "value is -1"),
        ("value = 2.5", "value = inf", "value is inf"),
        ("value = 2.5", 'value = "2"', "value is '2'"),
        ('unit = "us"', "unit = 3", "unit and source must be texts"),
        ('["t/r1"]', '["r1"]', "fitted_on is no list of rows"),
        ('title = "a machine"', "titel = 1", "unknown key 'titel'"),
        ("[cost.wake_up]", "[cost.wake_up", "is no TOML"),
    ],
)
def test_a_profile_that_is_wrong_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError, match=r"p\.toml") as caught:
        parse_profile(TEXT.replace(old, new), "p", "p.toml")
    assert message in caught.value.message


def test_a_missing_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="no profile is called 'moon'"):
        load_profile("moon")
    with pytest.raises(UsageError, match=r"cannot read the profile /no/such\.toml"):
        load_profile("/no/such.toml")


@pytest.mark.parametrize("name", profile_names())
def test_a_shipped_profile_fits_at_most_one_row_in_three_and_only_rows_that_exist(name: str) -> None:
    fitted = load_profile(name).fitted_rows()
    known = {row.name for thread in threads() for row in thread.rows}
    assert fitted <= known
    for thread in threads():
        here = [row for row in thread.rows if row.name in fitted]
        figures = [row for row in thread.rows if row.kind == "figure"]
        # A thread with two figures has ten claims beside them: one of its rows may be fitted.
        assert len(here) <= max(len(figures) // 3, 1), [row.id for row in here]
        assert 3 * len(here) <= len(thread.rows), [row.id for row in here]


class CostTarget:
    """m_ms of case a is wake_up + add_disk, of case b wake_up alone; `unused` moves nothing."""

    name: ClassVar[str] = "sim"
    clock: ClassVar[str] = "no time"
    basis: ClassVar[Basis] = "predicted"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 1
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = True

    def run(self, spec: RunSpec) -> RunSamples:
        add = spec.costs["add_disk"] if spec.case == "a" and spec.variant == "before" else 0
        return RunSamples({"m_ms": [spec.costs["wake_up"] + add]})

    def cancel(self) -> None:
        return

    def close(self) -> None:
        return


def _experiment(id_: str, *rows: RowMap) -> Experiment:
    return Experiment(
        id=id_,
        title=id_,
        variants=(Variant("before", "", {}), Variant("after", "", {})),
        cases=(Case("a", "w", {}), Case("b", "w", {})),
        metrics=(Metric("m_ms", "ms", "lower"),),
        rows=rows,
    )


def _sensitivities(
    monkeypatch: pytest.MonkeyPatch, *experiments: Experiment
) -> dict[str, sensitivity.Sensitivity]:
    monkeypatch.setitem(targets._entries, "sim", targets._Entry(CostTarget, ""))
    monkeypatch.setattr(sensitivity, "find_experiments", lambda: experiments)
    text = TEXT + '\n[cost.unused]\nvalue = 1\nunit = "ns"\nsource = "x"\n'
    profile: Profile = parse_profile(text, "p", "p.toml")
    return {s.cost.name: s for s in sensitivity.sensitivities(experiments[0], profile)}


def test_a_cost_that_moves_one_measurement_alone_is_a_fudge(monkeypatch: pytest.MonkeyPatch) -> None:
    both = _experiment(
        "x",
        RowMap("boot-1", "a", "m_ms", "before", "after"),
        RowMap("boot-2", "a", "m_ms", "before", "after"),
        RowMap("other", "b", "m_ms", "before", ""),
    )
    found = _sensitivities(monkeypatch, both)
    assert [m.row for m in found["wake_up"].moves] == ["boot-1", "boot-2", "other"]
    assert not found["wake_up"].fudge
    # Two boots are one measurement.
    assert [m.row for m in found["add_disk"].moves] == ["boot-1", "boot-2"]
    assert found["add_disk"].fudge
    assert found["unused"].moves == ()
    assert not found["unused"].fudge
    move = found["add_disk"].moves[0]
    assert move.before == pytest.approx(40 / 2900)
    assert move.after == 0
    assert move.ratio == pytest.approx(2900 / 2940 - 1)


def test_a_cost_that_moves_a_row_of_another_thread_is_no_fudge(monkeypatch: pytest.MonkeyPatch) -> None:
    one = _experiment(
        "x", RowMap("r", "a", "m_ms", "before", "after"), RowMap("s", "b", "m_ms", "before", "")
    )
    other = _experiment("y", RowMap("r", "a", "m_ms", "before", ""))
    assert not _sensitivities(monkeypatch, one, other)["add_disk"].fudge
