"""Finds experiments: those that mqlab ships, those of installed packages, and those in a file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from mqlab.errors import MqlabError, UsageError
from mqlab.model import Experiment
from mqlab.parameters import did_you_mean

__all__ = ["ENTRY_POINTS", "find_experiment", "find_experiments"]

# Packages announce a module, or an Experiment in one, under this group.
ENTRY_POINTS: Final = "mqlab.experiments"


def find_experiments(file: str | Path | None = None) -> tuple[Experiment, ...]:
    """All experiments by id, those of `file` too. Two that share an id are refused."""
    found = [*_shipped(), *_from_entry_points(), *(_from_file(Path(file)) if file else ())]
    by_id: dict[str, Experiment] = {}
    for experiment in found:
        if experiment.id in by_id and by_id[experiment.id] != experiment:
            raise UsageError(f"two experiments are called {experiment.id!r}", "give each its own id")
        by_id[experiment.id] = experiment
    return tuple(by_id[id_] for id_ in sorted(by_id))


def find_experiment(name: str | Path | Experiment) -> Experiment:
    """The experiment with that id, the only one in a file, `FILE:ID`, or `name` itself if it is one."""
    if isinstance(name, Experiment):
        return name
    if not isinstance(name, str | Path):
        raise UsageError(f"{name!r} is no experiment", "give an id, the path of a file, or an Experiment")
    name = str(name)
    path, _, id_ = name.partition(".py:")
    if name.endswith(".py") or id_:
        inside = _from_file(Path(f"{path}.py" if id_ else name))
        if id_:
            return _by_id(inside, id_, f"no experiment in {path}.py")
        if len(inside) != 1:
            ids = ", ".join(e.id for e in inside)
            raise UsageError(f"{name} holds {len(inside)} experiments", f"choose one as {name}:ID ({ids})")
        return inside[0]
    return _by_id(find_experiments(), name, "no experiment")


def _by_id(experiments: Iterable[Experiment], id_: str, what: str) -> Experiment:
    known = {e.id: e for e in experiments}
    if id_ not in known:
        raise UsageError(f"{what} is called {id_!r}", did_you_mean(id_, sorted(known)))
    return known[id_]


def _shipped() -> list[Experiment]:
    package = importlib.import_module("mqlab.experiments")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    return [e for name in names for e in _in_module(importlib.import_module(f"mqlab.experiments.{name}"))]


def _from_entry_points() -> list[Experiment]:
    found: list[Experiment] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            value = point.load()
        except Exception as error:
            where = f"entry point {point.name} ({point.value})"
            raise UsageError(f"{where} does not load: {error}", "mend or uninstall its package") from error
        found += [value] if isinstance(value, Experiment) else _in_module(value)
    return found


def _from_file(path: Path) -> list[Experiment]:
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}", "give the path of a Python file with an @mqlab.experiment"
        )
    name = f"_mqlab_file_{abs(hash(str(path.resolve())))}"
    state = path.stat()
    stamp = (state.st_mtime_ns, state.st_size)  # an edited file is read again, as a notebook needs it
    if name in sys.modules and getattr(sys.modules[name], "_mqlab_stamp", None) == stamp:
        return _in_module(sys.modules[name])
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file", "give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["_mqlab_stamp"] = stamp
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except MqlabError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path} does not load: {_last_line(error, path)}", "mend the file") from error
    found = _in_module(module)
    if not found:
        raise UsageError(f"{path} holds no experiment", "decorate a function with @mqlab.experiment")
    return found


def _in_module(module: ModuleType) -> list[Experiment]:
    return [value for value in vars(module).values() if isinstance(value, Experiment)]


def _last_line(error: Exception, path: Path) -> str:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    return f"line {line}: {error!r}" if line else repr(error)
