"""What a run is given and what comes back: plain data that targets, store and results share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mqlab.guest import Guest
from mqlab.model import Experiment
from mqlab.parameters import Scalar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Fingerprint", "ResultRecord", "RunRecord", "RunSamples", "RunSpec", "Skip", "fingerprint_id"]

# What must agree for two runs to be comparable: names and plain values.
Fingerprint = Mapping[str, Scalar]


def fingerprint_id(fingerprint: Fingerprint) -> str:
    """A short name for a fingerprint: equal exactly when the fingerprints are."""
    text = json.dumps(dict(fingerprint), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run to be done: all that a workload needs, and nothing of where its samples go.

    `costs` are the profile's values in nanoseconds by name; only the sim uses them. A real kernel is told by
    `guest`, by the `thread` and those of its `patches` that make the variant (None: none does, for
    `kernel_reason`), and by the `fragment` of the variant where that has one.
    """

    workload: str
    target: str
    seed: int
    params: Mapping[str, Scalar]
    policies: Mapping[str, Scalar]
    profile: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)
    experiment: str = ""
    case: str = ""
    variant: str = ""
    thread: str = ""
    guest: Guest | None = None
    patches: tuple[int, ...] | None = ()
    fragment: str = ""
    kernel_reason: str = ""

    def to_json(self) -> str:
        """The text that the engine and the agent read."""
        spec: dict[str, Any] = {
            "target": self.target,
            "seed": self.seed,
            "params": dict(self.params),
            "policies": dict(self.policies),
        }
        if self.profile:
            spec["profile"] = {"name": self.profile, "values": dict(self.costs)}
        return json.dumps(spec, sort_keys=True)


@dataclass(frozen=True, slots=True)
class RunSamples:
    """What one run gave.

    `conditions` are what the run found instead of what it was asked for (a real kernel's release and HZ), and
    `fingerprint` what it must share with another run to be compared with it.
    """

    samples: Mapping[str, Sequence[float] | NDArray[np.float64]]
    counters: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    fingerprint: Fingerprint = field(default_factory=dict)
    dmesg: str = ""


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run as it is kept: its place in the plan, and its samples as read-only arrays of float64.

    `order` is the position in which the run was started, `started` is UTC.
    """

    variant: str
    case: str
    run: int
    order: int
    seed: int
    started: datetime
    samples: Mapping[str, NDArray[np.float64]]
    counters: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    fingerprint: Fingerprint = field(default_factory=dict)
    dmesg: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunRecord):
            return NotImplemented
        return self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash((self.variant, self.case, self.run, self.seed))

    def _plain(self) -> tuple[Any, ...]:
        return (
            (self.variant, self.case, self.run, self.order, self.seed, self.started, self.notes, self.dmesg),
            dict(self.counters),
            dict(self.conditions),
            dict(self.fingerprint),
            {name: values.tobytes() for name, values in self.samples.items()},
        )


@dataclass(frozen=True, slots=True)
class Skip:
    """A variant of a case that was not measured, and why."""

    variant: str
    case: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True)
class ResultRecord:
    """All runs of one `mqlab run`, with the definition of what was run, so that it can be read without it.

    `partial` marks a result whose plan was not finished.
    """

    definition: Experiment
    target: str
    seed: int
    created: datetime
    tool_version: str
    clock: str
    runs: tuple[RunRecord, ...] = ()
    skips: tuple[Skip, ...] = ()
    label: str = ""
    profile: str = ""
    partial: bool = False
