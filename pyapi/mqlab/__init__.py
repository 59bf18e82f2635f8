"""mqlab measures what a change to the Linux block layer does, and says whether the difference is real."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# Name -> module. Each is imported on first use, so that `import mqlab` costs next to nothing. No name is
# that of a module, package or folder of mqlab: the import of the one would overwrite the other.
_LAZY = {
    "Case": "mqlab.model",
    "Curve": "mqlab.model",
    "Experiment": "mqlab.model",
    "Interrupted": "mqlab.api",
    "Guest": "mqlab.guest",
    "Matrix": "mqlab.across",
    "Metric": "mqlab.model",
    "MqlabError": "mqlab.errors",
    "Parameter": "mqlab.parameters",
    "Reproduction": "mqlab.reproduction",
    "Result": "mqlab.result",
    "RowMap": "mqlab.model",
    "RunSpec": "mqlab.records",
    "Store": "mqlab.store",
    "StressReport": "mqlab.stressing",
    "Variant": "mqlab.model",
    "experiment": "mqlab.model",
    "forecast": "mqlab.foreseeing",
    "list_experiments": "mqlab.api",
    "load_reproduction": "mqlab.api",
    "load_result": "mqlab.api",
    "matrix": "mqlab.across",
    "open_store": "mqlab.api",
    "reproduce": "mqlab.api",
    "Trial": "mqlab.trying",
    "build_kernel": "mqlab.kernels.build",
    "find_kernel": "mqlab.kernels.find",
    "plan_trial": "mqlab.trying",
    "repeat": "mqlab.repeating",
    "run": "mqlab.api",
    "stress": "mqlab.stressing",
    "try_series": "mqlab.trying",
    "workload": "mqlab.python_workloads",
}

__all__ = ["__version__", *_LAZY]

if TYPE_CHECKING:
    from mqlab.across import Matrix as Matrix
    from mqlab.across import matrix as matrix
    from mqlab.api import (
        Interrupted as Interrupted,
    )
    from mqlab.api import (
        list_experiments as list_experiments,
    )
    from mqlab.api import load_reproduction as load_reproduction
    from mqlab.api import load_result as load_result
    from mqlab.api import open_store as open_store
    from mqlab.api import reproduce as reproduce
    from mqlab.api import run as run
    from mqlab.errors import MqlabError as MqlabError
    from mqlab.foreseeing import forecast as forecast
    from mqlab.guest import Guest as Guest
    from mqlab.kernels.build import build_kernel as build_kernel
    from mqlab.kernels.find import find_kernel as find_kernel
    from mqlab.model import Case as Case
    from mqlab.model import Curve as Curve
    from mqlab.model import Experiment as Experiment
    from mqlab.model import Metric as Metric
    from mqlab.model import RowMap as RowMap
    from mqlab.model import Variant as Variant
    from mqlab.model import experiment as experiment
    from mqlab.parameters import Parameter as Parameter
    from mqlab.python_workloads import workload as workload
    from mqlab.records import RunSpec as RunSpec
    from mqlab.repeating import repeat as repeat
    from mqlab.reproduction import Reproduction as Reproduction
    from mqlab.result import Result as Result
    from mqlab.store import Store as Store
    from mqlab.stressing import StressReport as StressReport
    from mqlab.stressing import stress as stress
    from mqlab.trying import Trial as Trial
    from mqlab.trying import plan_trial as plan_trial
    from mqlab.trying import try_series as try_series

    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from mqlab._core import version

            return version()
        if name not in _LAZY:
            raise AttributeError(f"module 'mqlab' has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted([*globals(), *_LAZY])
