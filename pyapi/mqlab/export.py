"""The files of a result or reproduction: table, plot, CSV and JSON, each replaced at once or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from mqlab.across import Matrix
from mqlab.errors import UsageError
from mqlab.published import Range
from mqlab.reproduction import Reproduction
from mqlab.result import Result

__all__ = ["prepare_folder", "write_matrix", "write_reproduction", "write_result"]


def prepare_folder(folder: Path) -> None:
    """Makes the folder and sees that it can be written, before anything is measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write to the folder {folder}: {error.strerror}",
            "name another with --out, or use --no-files",
        ) from None


def write_result(result: Result, folder: Path) -> list[Path]:
    """ID-run.{txt,png,csv,json}, and ID-run-curves.png where curves were measured."""
    from mqlab.plot import drawn_curves, plot_curves, save_png

    base = f"{result.experiment}-run"
    curves = (
        [_write(folder / f"{base}-curves.png", save_png(plot_curves(result)))] if drawn_curves(result) else []
    )
    return [
        *curves,
        _write(folder / f"{base}.txt", result.table().encode()),
        _write(folder / f"{base}.png", save_png(result.plot())),
        _write(folder / f"{base}.csv", result.frame().to_csv(index=False).encode()),
        _write(folder / f"{base}.json", _json(result.to_dict())),
    ]


def write_matrix(matrix: Matrix, folder: Path) -> list[Path]:
    """ID-matrix.{txt,png,csv,json}."""
    from mqlab.plot import save_png

    base = f"{matrix.experiment}-matrix"
    return [
        _write(folder / f"{base}.txt", matrix.table().encode()),
        _write(folder / f"{base}.png", save_png(matrix.plot())),
        _write(folder / f"{base}.csv", matrix.frame().to_csv(index=False).encode()),
        _write(folder / f"{base}.json", _json(matrix.to_dict())),
    ]


def write_reproduction(reproduction: Reproduction, folder: Path) -> list[Path]:
    """For each thread THREAD.{txt,png,csv,json}, and THREAD-curves.png where curves were measured.

    What was not measured in the sim has its target in the names, as THREAD-vm.txt.
    """
    from mqlab.plot import drawn_curves, plot_curves, save_png

    written: list[Path] = []
    for id_ in dict.fromkeys(row.thread for row in reproduction.rows):
        part = reproduction.thread(id_)
        target = part.rows[0].target
        base = id_ if target == "sim" else f"{id_}-{target}"
        written += [
            _write(folder / f"{base}.txt", part.table().encode()),
            _write(folder / f"{base}.png", save_png(part.plot())),
            _write(folder / f"{base}.csv", _rows_csv(part)),
            _write(folder / f"{base}.json", _json(part.to_dict())),
        ]
        for result in (r for r in part.results if drawn_curves(r)):
            beside = "" if result.target == target else f"-{result.target}"
            written.append(_write(folder / f"{base}-curves{beside}.png", save_png(plot_curves(result))))
    return written


def _rows_csv(reproduction: Reproduction) -> bytes:
    frame = reproduction.frame()
    for name in ("published_before", "published_after"):
        frame[name] = [
            f"{side.low:.10g}-{side.high:.10g}" if isinstance(side, Range) else side
            for side in (getattr(row, name) for row in reproduction.rows)
        ]
    return frame.to_csv(index=False).encode()


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, allow_nan=False, indent=2) + "\n").encode()


def _write(path: Path, content: bytes) -> Path:
    made: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            made = Path(file.name)
            file.write(content)
        made.chmod(0o666 & ~_umask())
        made.replace(path)
    except OSError as error:
        if made is not None:
            made.unlink(missing_ok=True)
        raise UsageError(
            f"cannot write {path}: {error.strerror}", "what was measured is in the store"
        ) from None
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
