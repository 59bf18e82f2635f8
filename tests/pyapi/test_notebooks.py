"""The notebooks run from top to bottom, and show what they promise."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mqlab.profiles import profile_names

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.slow
@pytest.mark.skipif("published" not in profile_names(), reason="the sim has no profile to run with")
@pytest.mark.parametrize("name", sorted(p.name for p in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "strip the outputs before committing"
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute(env={**os.environ})
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [o for o in shown if o.output_type == "error"]
    pictures = [o for o in shown if "image/png" in o.get("data", {})]
    tables = [o for o in shown if "text/html" in o.get("data", {})]
    assert len(pictures) >= 5
    assert len(tables) >= 8
