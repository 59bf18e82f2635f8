"""What every target is: a place where a workload runs."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, runtime_checkable

from mqlab.records import RunSamples, RunSpec

__all__ = ["Basis", "Target"]

Basis = Literal["predicted", "measured"]


@runtime_checkable
class Target(Protocol):
    """A place where workloads run.

    `run` may be called from up to `workers` threads at once. A workload, policy or parameter that this
    target cannot do is an UnsupportedError whose message is the reason and whose remedy says what to do:
    the plan goes on and the case is shown as skipped. Any other error ends the plan.

    `deterministic`: the same spec gives the same samples, so one run tells all that this seed can tell.
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
