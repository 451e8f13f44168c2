"""The errors on published runs that ship with the package, and the tables that have these runs."""

from __future__ import annotations

from functools import cache

from dovetail.accuracy.recipes import PublishedRow
from dovetail.accuracy.residuals import Residual, residuals_of
from dovetail.accuracy.runs.jobs import run_of
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.tpu_rows import tpu_run_of
from dovetail.files.measurements import load_measurements, shipped_folder

TABLES = {"published/published_training.csv": run_of, "published/published_tpu.csv": tpu_run_of}


@cache
def load_residuals() -> tuple[Residual, ...]:
    return residuals_of(load_measurements(shipped_folder("residuals.csv")))


@cache
def load_published() -> dict[str, PublishedRow]:
    """Every row of the published tables that ship, by its name."""
    found = {}
    for name, reader in TABLES.items():
        table = load_measurements(shipped_folder(name))
        for cells in table.rows:
            row = Row(cells=dict(zip(table.columns, cells, strict=True)))
            found[row.word("row_id")] = PublishedRow(row=row, run_of=reader)
    return found
