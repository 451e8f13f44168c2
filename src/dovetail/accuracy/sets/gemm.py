"""Matrix products: m, n, k and microseconds, with the layout or the pass where the table has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.accuracy.columns import product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.passes import pass_labels, phases_of
from dovetail.accuracy.prepared import Prepared, TableContext, Typed, chip_for, operators, promise_for, typed
from dovetail.accuracy.readings import DOCUMENTED, Reading, borne_out, hidden_s, quantising_s, readings_of
from dovetail.accuracy.sets import Format, sets
from dovetail.cost.op_cost import Setting
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.operators import dtype_code

MNK, MKN = ("m", "n", "k"), ("m", "k", "n")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given, table=measurements.name)
    rows = typed(measurements, given, chip)
    promise = "h200 gemm random shapes"
    if set(rows.dtypes) == {"fp8"}:
        promise = "h200 gemm fp8"
    elif measurements.has("model"):
        promise = "h200 gemm model shapes"
    kept = promise_for(chip, promise)
    ways = (DOCUMENTED,) if kept else readings_of(rows.dtypes)
    return (borne_out([(way, products(rows, chip, "time_us", MICRO, kept, reading=way)) for way in ways]),)


def products(
    rows: Typed,
    chip: Chip,
    column: str,
    scale_s: float,
    promise: str,
    setting: Setting = Setting.ALONE,
    stored: str = "",
    reading: Reading = DOCUMENTED,
) -> Prepared:
    """The products of a table whose times are in `column`, in units of `scale_s`; operands may be `stored` wider."""
    m, n, k = (rows.table.counts(name) for name in (MKN if reading.is_exchanged else MNK))
    phases = phases_of(rows.table)
    ops = product_ops(1, m, n, k, kind="linear", phase=phases, dtypes=rows.dtypes)
    if stored:
        ops = replace(ops, dtype=np.full(len(ops), dtype_code(stored)))
    plain = operators(
        rows,
        ops,
        chip,
        kinds=pass_labels(phases),
        whats=shape_label(m, n, k),
        measured_s=rows.table.positive(column) * scale_s,
        promise=promise,
        setting=setting if reading is DOCUMENTED else reading.setting,
    )
    if not reading.is_quantised:
        return plain

    def with_quantising(chip: Chip) -> FloatArray:
        shown_s = plain.predicted(chip) - hidden_s(m, n, chip) * reading.is_epilogue_hidden
        return np.asarray(shown_s + quantising_s(m, k, chip))

    return replace(plain, predicted=with_quantising)


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
