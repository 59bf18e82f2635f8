"""The target that a series is tried on: guests with the kernels that were built for it."""

from __future__ import annotations

import threading
from typing import ClassVar

from mqlab.errors import SystemCallError, TimeoutError_, UnsupportedError
from mqlab.kernels.kernel import Kernel
from mqlab.model import Case
from mqlab.records import RunSamples, RunSpec
from mqlab.targets import Basis, Manner, Target, manner_of

__all__ = ["GuardedTarget", "TrialKernels", "make_target", "told_shortly"]


class TrialKernels:
    """The kernel of each kind and side; built before anything is measured."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Kernel] = {}

    def for_spec(self, spec: RunSpec) -> Kernel:
        return self.found[spec.fragment or "base", spec.variant]


def told_shortly(error: Exception) -> str:
    """How a guest ended, for a table that goes into a commit message: without where its log lies."""
    message = getattr(error, "message", str(error))
    return str(message).splitlines()[0].partition("; all that it said")[0]


class GuardedTarget:
    """A target that goes on where a kernel breaks: the case is skipped, and how it broke is kept."""

    name: ClassVar[str] = "vm"
    clock: ClassVar[str] = ""
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = False

    def __init__(self, inner: Target) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.broken: dict[tuple[str, str, str], Exception] = {}

    def manner(self, case: Case) -> Manner:
        return manner_of(self._inner, case)

    def run(self, spec: RunSpec) -> RunSamples:
        try:
            return self._inner.run(spec)
        except (SystemCallError, TimeoutError_) as error:
            with self._lock:
                self.broken.setdefault((spec.experiment, spec.case, spec.variant), error)
            raise UnsupportedError(told_shortly(error), error.remedy) from error

    def cancel(self) -> None:
        self._inner.cancel()

    def close(self) -> None:
        self._inner.close()


def make_target(kernels: TrialKernels) -> Target:
    """The VM, with the kernels that were built. Tests put another in its place."""
    from mqlab.targets.vm import VmTarget

    target = VmTarget()
    target.kernels = kernels  # type: ignore[assignment]
    return target
