"""Matrix products: m, n, k and microseconds, with the layout or the pass where the table has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.accuracy.columns import product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.passes import pass_labels, phases_of
from dovetail.accuracy.prepared import Prepared, TableContext, Typed, chip_for, operators, promise_for, typed
from dovetail.accuracy.sets import Format, sets
from dovetail.cost.op_cost import Setting
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.graph import IntArray
from dovetail.workload.operators import dtype_code


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    rows = typed(measurements, given, chip)
    promise = "h200 gemm random shapes"
    if set(rows.dtypes) == {"fp8"}:
        promise = "h200 gemm fp8"
    elif measurements.has("model"):
        promise = "h200 gemm model shapes"
    return (products(rows, chip, "time_us", MICRO, promise_for(chip, promise)),)


def products(
    rows: Typed,
    chip: Chip,
    column: str,
    scale_s: float,
    promise: str,
    setting: Setting = Setting.ALONE,
    stored: str = "",
) -> Prepared:
    """The products of a table whose times are in `column`, in units of `scale_s`; operands may be `stored` wider."""
    m, n, k = (rows.table.counts(name) for name in ("m", "n", "k"))
    phases = phases_of(rows.table)
    ops = product_ops(1, m, n, k, kind="linear", phase=phases, dtypes=rows.dtypes)
    if stored:
        ops = replace(ops, dtype=np.full(len(ops), dtype_code(stored)))
    return operators(
        rows,
        ops,
        chip,
        kinds=pass_labels(phases),
        whats=shape_label(m, n, k),
        measured_s=rows.table.positive(column) * scale_s,
        promise=promise,
        setting=setting,
    )


def shape_label(*extents: IntArray) -> tuple[str, ...]:
    return tuple("x".join(str(size) for size in row) for row in zip(*(e.tolist() for e in extents), strict=True))


sets.register("gemm")(
    Format(
        needed=("m", "n", "k", "time_us"),
        summary="matrix products: m, n, k, time_us; layout or pass, dtype",
        prepare=prepare,
        has_dtypes=True,
    )
)
