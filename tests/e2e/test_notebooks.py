"""The notebooks run from the first cell to the last, claims and all, and are kept without their outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.apart import ended
from tests.e2e.conftest import ROOT, environment

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
TIMEOUT_S = 900  # a cell, or a kernel's start; all three together take a minute on an idle machine
PLOTLY = "application/vnd.plotly.v1+json"


def read(file: Path) -> Any:
    return nbformat.read(file, as_version=4)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_without_outputs(file):
    notebook = read(file)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert [cell.execution_count for cell in code] == [None] * len(code)
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_shows_tables_and_charts(file, monkeypatch):
    for name, value in environment().items():
        monkeypatch.setitem(os.environ, name, value)
    notebook = read(file)
    where = {"metadata": {"path": str(ROOT)}}
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, startup_timeout=TIMEOUT_S, kernel_name="python3", resources=where
    )
    ended(client.async_execute())
    shown = [set(output.data) for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    assert any("text/html" in kinds and PLOTLY not in kinds for kinds in shown)
    assert any(PLOTLY in kinds for kinds in shown)


def test_there_is_a_notebook_for_each_of_the_three_users():
    assert [file.stem for file in NOTEBOOKS] == ["choose-a-chip", "study-a-network", "train-a-model"]
