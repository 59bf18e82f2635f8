"""What every target is: a place where a workload runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

from mqlab.model import Case
from mqlab.records import RunSamples, RunSpec

__all__ = ["Basis", "Manner", "Target", "manner_of"]

Basis = Literal["predicted", "measured"]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a case is run: by which clock, whether one seed's run tells all that it can, and how many runs."""

    clock: str
    deterministic: bool
    default_runs: int


@runtime_checkable
class Target(Protocol):
    """A place where workloads run.

    `run` may be called from up to `workers` threads at once. A workload, policy or parameter that this
    target cannot do is an UnsupportedError whose message is the reason and whose remedy says what to do:
    the plan goes on and the case is shown as skipped. Any other error ends the plan.

    `deterministic`: the same spec gives the same samples, so one run tells all that this seed can tell. A
    target with a method `manner(case) -> Manner` may run some cases otherwise.
    `basis`: whether its figures are predictions of a model or measurements.
    """

    name: ClassVar[str]
    clock: ClassVar[str]
    basis: ClassVar[Basis]
    deterministic: ClassVar[bool]
    workers: ClassVar[int]
    default_runs: ClassVar[int]
    uses_profile: ClassVar[bool]

    def run(self, spec: RunSpec) -> RunSamples:
        """Does the run that `spec` describes, from a fresh state."""
        ...

    def cancel(self) -> None:
        """Asks the runs that are under way to end; each raises KeyboardInterrupt in its thread."""
        ...

    def close(self) -> None:
        """Gives back what the target holds. Not called while a run is under way."""
        ...


@runtime_checkable
class _KnowsManner(Protocol):
    def manner(self, case: Case) -> Manner: ...


def manner_of(target: Target, case: Case) -> Manner:
    """How `target` runs the case: as it says for this case, else as it runs all."""
    if isinstance(target, _KnowsManner):
        return target.manner(case)
    return Manner(target.clock, target.deterministic, target.default_runs)
