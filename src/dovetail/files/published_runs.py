"""Published runs with what was measured of each, as the package ships them."""

from __future__ import annotations

from functools import cache

from dovetail.accuracy.runs.row import Row
from dovetail.errors import DovetailError
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.files.residuals import load_residuals
from dovetail.report.charts.published import MeasuredRun

TABLES = {"published/published_training.csv": "", "published/published_tpu.csv": "step_s"}


@cache
def load_published_runs() -> tuple[MeasuredRun, ...]:
    """Every run of which the error is known."""
    measured_s: dict[str, float] = {}
    for file, column in TABLES.items():
        table = load_measurements(shipped_folder(file))
        for cells in table.rows:
            row = Row(cells=dict(zip(table.columns, cells, strict=True)))
            try:
                measured_s[row.word("row_id")] = row.number(column) if column else row.measured_s
            except DovetailError:  # a row without a time, which no error is of
                continue
    found = load_residuals()
    return tuple(
        MeasuredRun(residual=one, measured_s=measured_s[one.name]) for one in found if measured_s.get(one.name)
    )
