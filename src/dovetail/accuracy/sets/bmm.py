"""Batched products of two activations: b, m, n, k and microseconds."""

from __future__ import annotations

from dovetail.accuracy.columns import product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, Typed, chip_for, operators, promise_for, typed
from dovetail.accuracy.readings import DOCUMENTED, EXCHANGED, Reading, borne_out
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.gemm import MKN, MNK, shape_label
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.graph import Phase


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given, table=measurements.name)
    rows = typed(measurements, given, chip)
    promise = promise_for(chip, "h200 bmm")
    ways = (DOCUMENTED,) if promise else (DOCUMENTED, EXCHANGED)
    return (borne_out([(way, _products(rows, chip, promise, way)) for way in ways]),)


def _products(rows: Typed, chip: Chip, promise: str, reading: Reading) -> Prepared:
    b, m, n, k = (rows.table.counts(name) for name in ("b", *(MKN if reading.is_exchanged else MNK)))
    return operators(
        rows,
        product_ops(b, m, n, k, kind="matmul", phase=Phase.FORWARD, dtypes=rows.dtypes),
        chip,
        kinds=("matmul",) * len(rows.table),
        whats=shape_label(b, m, n, k),
        measured_s=rows.table.positive("time_us") * MICRO,
        promise=promise,
    )


sets.register("bmm")(
    Format(
        needed=("b", "m", "n", "k", "time_us"),
        summary="batched products: b, m, n, k, time_us",
        prepare=prepare,
        has_dtypes=True,
    )
)
