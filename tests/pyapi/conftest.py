"""A small target for the tests of everything above the engine: figures by formula, no engine behind them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from mqlab import targets
from mqlab.errors import UnsupportedError
from mqlab.model import Case, Experiment, Metric, Variant
from mqlab.parameters import Parameter
from mqlab.records import RunSamples, RunSpec
from mqlab.targets import Basis


class FormulaTarget:
    """Runs `wait` (before 4 ms, after 1 ms, a little noise) and `empty` (no samples)."""

    name: ClassVar[str] = "formula"
    clock: ClassVar[str] = "no time"
    basis: ClassVar[Basis] = "predicted"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 3
    uses_profile: ClassVar[bool] = False

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.closed = False
        self.seen: list[RunSpec] = []

    def run(self, spec: RunSpec) -> RunSamples:
        self.seen.append(spec)
        if spec.workload == "unable":
            raise UnsupportedError("no such device here", "plug one in")
        chance = random.Random(f"{spec.seed} {spec.variant}")
        base = 4.0 if spec.variant == "before" else 1.0
        samples: dict[str, list[float]] = {}
        if spec.workload == "wait":
            samples = {
                "wait_ms": [base * chance.uniform(0.98, 1.02) for _ in range(int(spec.params["count"]))],
                "total_ms": [base * 10],
            }
        return RunSamples(
            samples, {"runs": 1}, ("by formula",), {"hz": 1000}, {"target": self.name, "kernel": "none"}
        )

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def formula() -> Iterator[Callable[[], FormulaTarget]]:
    """Registers the target; calling the fixture gives the one that was made last."""
    made: list[FormulaTarget] = []

    def make() -> FormulaTarget:
        made.append(FormulaTarget())
        return made[-1]

    targets.register_target("formula", make, "figures by formula")
    yield lambda: made[-1]
    del targets._entries["formula"]


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps every test's store to itself."""
    path = tmp_path / "store" / "test.sqlite"
    monkeypatch.setenv("MQLAB_STORE", str(path))
    return path


@pytest.fixture
def waits() -> Experiment:
    """An experiment for the formula target."""
    return Experiment(
        id="waits",
        title="waiting, before and after",
        question="How long is the wait?",
        variants=(
            Variant("before", "with the wait", {"wait": "on"}),
            Variant("after", "without", {"wait": "off"}),
        ),
        cases=(
            Case("short", "wait", {"hz": 1000, "count": 5}),
            Case("long", "wait", {"hz": 1000, "count": 50}),
        ),
        metrics=(Metric("wait_ms", "ms", "lower"), Metric("total_ms", "ms", "lower")),
        parameters=(
            Parameter("hz", "ticks", "Hz", 100, 1000),
            Parameter("count", "waits", "", 1, 1000),
            Parameter("hold_ms", "time", "ms", 0, 100, integer=False),
            Parameter("kind", "a word", choices=("tcp", "loop")),
        ),
    )
