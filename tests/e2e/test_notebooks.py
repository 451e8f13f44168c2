"""The notebooks run from the first cell to the last, claims and all, and show what is kept in them."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.apart import ended
from tests.e2e.conftest import ROOT, environment

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SVG = "image/svg+xml"
MOST_BYTES = 400_000


def read(file: Path) -> Any:
    return nbformat.read(file, as_version=4)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_with_outputs_that_can_be_read_in_light_and_dark(file):
    notebook = read(file)
    nbformat.validate(notebook)
    assert file.stat().st_size < MOST_BYTES
    assert notebook.cells[0].source.startswith("# ")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run make notebooks"
    shown = [output.data for cell in code for output in cell.outputs if "data" in output]
    drawn = [data[SVG] for data in shown if SVG in data]
    assert len(drawn) >= 3
    assert all("prefers-color-scheme:dark" in svg for svg in drawn)
    assert all(set(data) <= {SVG, "text/plain"} for data in shown)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_shows_what_is_kept_in_it(file, monkeypatch, bless):
    for name, value in environment().items():
        monkeypatch.setitem(os.environ, name, value)
    script = runpy.run_path(str(FOLDER / "outputs.py"))
    client, notebook = script["prepared"](file)
    ended(client.async_execute())
    today = nbformat.writes(script["kept"](notebook)) + "\n"
    if bless:
        file.write_text(today, encoding="utf-8")
    assert today.rstrip() == file.read_text(encoding="utf-8").rstrip(), "run make notebooks, and look at what moved"


def test_there_is_a_notebook_for_each_of_the_three_users():
    assert [file.stem for file in NOTEBOOKS] == ["choose-a-chip", "study-a-network", "train-a-model"]
