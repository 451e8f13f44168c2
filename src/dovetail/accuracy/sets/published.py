"""Published training runs: seconds of a step, zero-shot, one kind a publisher."""

from __future__ import annotations

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Decision, Prepared, TableContext, chip_for
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.timing import Timed, timed_rows
from dovetail.accuracy.sets import Format, sets
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import FloatArray

NEEDED = ("row_id", "source", "quality", "model", "global_batch", "n_gpus", "gpu", "framework")
PROMISE = "published training"
SHAPE = ("seq", "tp", "pp", "dp", "cp", "ep", "micro_batch")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """Every row that is not read off a figure, those that do not state their microbatch apart."""
    cells = (dict(zip(measurements.columns, row, strict=True)) for row in measurements.rows)
    found, reasons = timed_rows(Row(cells=row) for row in cells)
    skipped = tuple(sorted(reasons.items()))
    complete = [timed for timed in found if timed.is_complete]
    others = [timed for timed in found if not timed.is_complete]
    parts = [_prepared(measurements.name, complete, given, PROMISE, skipped)]
    if others:
        parts.append(_prepared(f"{measurements.name}, microbatch not stated", others, given, "", ()))
    return tuple(parts)


def _prepared(
    name: str, rows: list[Timed], given: TableContext, promise: str, skipped: tuple[tuple[str, int], ...]
) -> Prepared:
    seconds: FloatArray = np.array([timed.step_s for timed in rows])

    def predicted(_chip: Chip) -> FloatArray:
        return seconds

    return Prepared(
        name=name,
        chip=chip_for(given),
        unit="s",
        kinds=tuple(timed.run.publisher for timed in rows),
        whats=tuple(timed.run.name for timed in rows),
        measured=np.array([timed.run.measured_s for timed in rows]),
        predicted=predicted,
        promise=promise,
        is_of_chip=False,
        skipped=skipped,
        groups=tuple(timed.run.group for timed in rows),
        decisions=tuple(
            Decision(kind=timed.run.publisher, has_run=True, fits=timed.fits)
            for timed in rows
            if timed.run.tells_memory
        ),
    )


sets.register("published")(
    Format(needed=NEEDED, summary=f"published training runs: {', '.join((*NEEDED, *SHAPE))}", prepare=prepare)
)
