"""The two targets of the C++ engine in this process: sim (virtual time) and native (real threads)."""

from __future__ import annotations

import hashlib
import json
import platform
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import ClassVar

from mqlab import _core
from mqlab.errors import InternalError, MqlabError, UnsupportedError, UsageError
from mqlab.parameters import Scalar
from mqlab.python_workloads import PythonWorkload, find_python_workload
from mqlab.records import RunSamples, RunSpec
from mqlab.targets.base import Basis
from mqlab.targets.host import host_fingerprint

__all__ = ["NativeTarget", "SimTarget"]

MODELLED_KERNEL = "model of Linux 7.3"


class _EngineTarget(ABC):
    """What sim and native share: both hand the spec to the engine, or to a Python workload of that name."""

    name: ClassVar[str]

    @abstractmethod
    def fingerprint(self, spec: RunSpec) -> dict[str, Scalar]:
        """What a run of `spec` must share with another to be compared with it."""

    def run(self, spec: RunSpec) -> RunSamples:
        python = find_python_workload(spec.workload)
        known = python.targets if python else _engine_targets().get(spec.workload)
        if known is None:
            raise UsageError(f"unknown workload {spec.workload!r}", "register it with @mqlab.workload")
        if self.name not in known:
            raise UnsupportedError(
                f"the workload {spec.workload} does not run on {self.name}", f"it runs on {', '.join(known)}"
            )
        return self._python(python, spec) if python else self._engine(spec)

    def cancel(self) -> None:
        _core.request_cancel()

    def close(self) -> None:
        """The engine holds nothing between two runs."""
        return

    def _engine(self, spec: RunSpec) -> RunSamples:
        known = _engine_policies()[spec.workload]
        # A variant's policies are those of all workloads of its experiment; each gets its own.
        own = replace(spec, policies={k: v for k, v in spec.policies.items() if k in known})
        try:
            data = json.loads(_core.run_workload(spec.workload, own.to_json()))
            samples, counters = dict(data["samples"]), dict(data.get("counters", {}))
        except (ValueError, KeyError, TypeError) as error:
            raise InternalError(
                f"the workload {spec.workload} returned no result that can be read: {error}"
            ) from None
        return RunSamples(samples, counters, tuple(data.get("notes", ())), fingerprint=self.fingerprint(spec))

    def _python(self, workload: PythonWorkload, spec: RunSpec) -> RunSamples:
        try:
            samples = workload(spec)
        except MqlabError:
            raise
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            raise UsageError(
                f"the workload {workload.name} failed at {line.filename}:{line.lineno}: {error!r}", "mend it"
            ) from error
        if not isinstance(samples, Mapping) or not all(_is_series(values) for values in samples.values()):
            raise UsageError(
                f"the workload {workload.name} returned no samples", "return {'metric': [numbers]} from it"
            )
        return RunSamples(
            samples, fingerprint={**self.fingerprint(spec), "language": platform.python_version()}
        )


class SimTarget(_EngineTarget):
    """The engine in virtual time. Same spec, same samples; runs go on side by side."""

    name = "sim"
    clock: ClassVar[str] = "virtual time"
    basis: ClassVar[Basis] = "predicted"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 3
    uses_profile: ClassVar[bool] = True

    def fingerprint(self, spec: RunSpec) -> dict[str, Scalar]:
        return {
            "target": self.name,
            "kernel": MODELLED_KERNEL,
            "clock": self.clock,
            "engine": _core.version(),
            "profile": spec.profile,
            "costs": _digest(spec.costs),
        }


class NativeTarget(_EngineTarget):
    """The engine with real threads in this process: one run at a time, or they would disturb each other."""

    name = "native"
    clock: ClassVar[str] = "real time"
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = False
    workers: ClassVar[int] = 1
    default_runs: ClassVar[int] = 5
    uses_profile: ClassVar[bool] = False

    def fingerprint(self, spec: RunSpec) -> dict[str, Scalar]:
        return {"target": self.name, "clock": self.clock, "engine": _core.version(), **host_fingerprint()}


@cache
def _engine_policies() -> dict[str, frozenset[str]]:
    return {
        w["name"]: frozenset(p["name"] for p in w["policies"]) for w in json.loads(_core.list_workloads())
    }


@cache
def _engine_targets() -> dict[str, tuple[str, ...]]:
    return {w["name"]: tuple(w["targets"]) for w in json.loads(_core.list_workloads())}


def _digest(costs: Mapping[str, float]) -> str:
    text = json.dumps(dict(costs), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _is_series(values: object) -> bool:
    if isinstance(values, str | bytes):
        return False
    return isinstance(values, Sequence) or type(values).__name__ == "ndarray"
