"""Runs the notebooks and keeps their outputs in them: `python examples/notebooks/outputs.py`, or with names some.

Outputs are text and SVG that follows light and dark, so that they can be read where nothing runs.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
KINDS = ("text/plain", "image/svg+xml")  # that are kept
TIMEOUT_S = 900  # a cell, or a kernel's start


def prepared(file: Path) -> tuple[NotebookClient, Any]:
    """Who runs the notebook, and the notebook without its outputs."""
    notebook = nbformat.read(file, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    where = {"metadata": {"path": str(ROOT)}}
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, startup_timeout=TIMEOUT_S, kernel_name="python3", resources=where
    )
    return client, notebook


def kept(notebook: Any) -> Any:
    """`notebook` without what differs from run to run or from machine to machine."""
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            if "data" in output:
                output.data = {kind: output.data[kind] for kind in KINDS if kind in output.data}
                output.metadata = {}
                if "image/svg+xml" in output.data:
                    output.data["text/plain"] = "a chart"
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


def main(names: list[str]) -> None:
    for file in sorted(FOLDER.glob("*.ipynb")):
        if not names or file.stem in names:
            client, notebook = prepared(file)
            asyncio.run(client.async_execute())
            nbformat.write(kept(notebook), file)
            sys.stderr.write(f"{file.name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
