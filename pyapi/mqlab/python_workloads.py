"""Workloads written in Python, for experiments of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from mqlab.errors import UsageError
from mqlab.records import RunSpec

__all__ = ["PythonWorkload", "find_python_workload", "workload"]

Function = Callable[[RunSpec], Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class PythonWorkload:
    """A Python function that does the work of one case once and returns its samples by metric name."""

    name: str
    help: str
    targets: tuple[str, ...]
    function: Function

    def __call__(self, spec: RunSpec) -> Mapping[str, Sequence[float]]:
        return self.function(spec)


_registered: dict[str, PythonWorkload] = {}


@overload
def workload(function: Function, /) -> PythonWorkload: ...
@overload
def workload(*, targets: Sequence[str] = ...) -> Callable[[Function], PythonWorkload]: ...
def workload(
    function: Function | None = None, /, *, targets: Sequence[str] = ("native",)
) -> PythonWorkload | Callable[[Function], PythonWorkload]:
    """Registers a function as a workload under its own name.

    It gets the RunSpec (`params`, `policies`, `seed`) and returns samples by metric name. What measures
    real time runs on `native`, which is the default; what computes its figures from the seed may add `sim`,
    where runs go on side by side.
    """

    def register(function: Function) -> PythonWorkload:
        unknown = set(targets) - {"native", "sim"}
        if unknown or not targets:
            raise UsageError(
                f"workload {function.__name__}: targets {sorted(unknown)}", "use native, sim or both"
            )
        made = PythonWorkload(
            function.__name__, " ".join((function.__doc__ or "").split()), tuple(targets), function
        )
        _registered[made.name] = made
        return made

    return register if function is None else register(function)


def find_python_workload(name: str) -> PythonWorkload | None:
    """The workload of that name, if one was registered in Python."""
    return _registered.get(name)
