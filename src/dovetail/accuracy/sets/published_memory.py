"""Peak memory that others published, of runs whose model and plan they tell."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.memory_rows import ANALYTIC, MemoryRow, memory_row
from dovetail.accuracy.prepared import Decision, Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.units import GIBI
from dovetail.workload.graph import FloatArray

NEEDED = ("mem_id", "source", "quality", "model", "metric")
READ = (
    *("layers", "hidden", "heads", "seq", "micro_batch", "n_gpus", "gpu", "tp", "pp", "dp", "cp", "ep", "pp_schedule"),
    *("seq_parallel", "recompute", "zero_stage", "precision", "value_gib", "value_raw", "notes"),
)


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """Rows that were measured and can be expressed; kinds are what was counted, and by whom."""
    columns = {column: measurements.words(column) for column in (*NEEDED, *READ)}
    fields = [{name: cells[row] for name, cells in columns.items()} for row in range(len(measurements))]
    rows = _rows(measurements, fields)
    kept = [row for row in rows if row.is_measured]
    skipped = Counter(row.why_not or "ran out of memory, so that there is no figure" for row in rows if row not in kept)
    skipped["closed forms, not measured"] += len(fields) - len(rows)
    ours: FloatArray = np.array([row.predicted_bytes for row in kept]) / GIBI

    def predicted(_: Chip) -> FloatArray:
        return ours

    prepared = Prepared(
        name=measurements.name,
        chip=chip_for(given),
        unit="GiB",
        kinds=tuple(f"{row.source.split()[0]} {row.kind}" for row in kept),
        whats=tuple(f"{row.row} {row.what}" for row in kept),
        measured=np.array([row.measured_bytes / GIBI for row in kept]),
        predicted=predicted,
        promise="published memory",
        is_of_chip=False,
        skipped=tuple(sorted(skipped.items())),
        decisions=tuple(
            Decision(kind=row.source.split()[0], has_run=row.has_run, fits=row.need_bytes <= row.limit_bytes)
            for row in rows
            if row.is_decision
        ),
    )
    return (prepared,)


def _rows(measurements: Measurements, fields: list[dict[str, str]]) -> list[MemoryRow]:
    """What was measured, row by row; raises for all the rows whose figure is none."""
    found, unreadable = [], {}
    for place, row in enumerate(fields):
        if row["quality"] == ANALYTIC:
            continue
        try:
            found.append(memory_row(row))
        except InvalidInput as error:
            unreadable[place] = error.message
    if unreadable:
        raise measurements.unreadable(unreadable)
    return found


sets.register("published-memory")(
    Format(
        needed=NEEDED,
        summary="peak memory of runs: mem_id, source, quality, model, metric, value_gib, and the plan they had",
        prepare=prepare,
    )
)
