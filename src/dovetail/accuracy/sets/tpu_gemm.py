"""Matrix products that others measured on a TPU v4 in fp16; in one table, with the tiles that XLA chose.

Both tables come from one repository, whose XLA profiles name the chip: a TPU v4, both cores as one, operands in fp16.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.accuracy.columns import product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, operators, promise_for, typed
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.gemm import products, shape_label
from dovetail.cost.columns import chip_columns
from dovetail.cost.mapping.tables import product_shapes
from dovetail.cost.mapping.vector_work import operand_visits
from dovetail.cost.op_cost import Setting
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.graph import FloatArray, Phase

TPU, DTYPE = "tpu-v4", "fp16"


def _in_fp16(given: TableContext) -> TableContext:
    """What the user gave, else what the profiles of the source say."""
    return replace(given, dtype=given.dtype or DTYPE)


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given, TPU)
    promise = promise_for(chip, "tpu gemm", TPU)
    rows = typed(measurements, _in_fp16(given), chip)
    one = products(rows, chip, "time_us_avg", MICRO, promise, Setting.KERNEL)
    return (replace(one, name=f"gemm {chip.name}", kinds=("matmul",) * len(one.kinds)),)


def prepare_tiled(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """Products at peak, and the conversions of as many operands as XLA's tiles ask for."""
    chip = chip_for(given, TPU)
    promise = promise_for(chip, "tpu gemm, tiles known", TPU)
    rows = typed(measurements, _in_fp16(given), chip)
    m, n, k = (rows.table.counts(name) for name in ("m", "n", "k"))
    tiles = (rows.table.positive("tiles_m"), rows.table.positive("tiles_n"))
    shapes = product_shapes(*(extent.astype(np.float64) for extent in (m, n, k)))

    def predicted(chip: Chip) -> FloatArray:
        one = chip_columns((chip,))
        if not one.are_arrays:
            raise InvalidInput(f"tiles of XLA say nothing about {chip.name}, which has no systolic arrays", "chip")
        slots = chip.calibration.conversion_slots * operand_visits(shapes, *tiles)
        macs_per_s = chip.tensor.num_units * chip.tensor.num_rows * chip.tensor.num_cols * chip.clock_hz
        return np.asarray(shapes.macs / macs_per_s + slots / (chip.vector.peak_flop_per_s / 2))

    ops = product_ops(1, m, n, k, kind="linear", phase=Phase.FORWARD, dtypes=rows.dtypes)
    one = operators(
        rows,
        ops,
        chip,
        kinds=("matmul",) * len(rows.table),
        whats=shape_label(m, n, k),
        measured_s=rows.table.positive("time_us") * MICRO,
        promise=promise,
        setting=Setting.KERNEL,
    )
    own = replace(one, name=f"gemm {chip.name}, our tiles", promise="")
    return replace(one, name=f"gemm {chip.name}, XLA's tiles", predicted=predicted), own


sets.register("tpu-gemm")(
    Format(
        needed=("m", "n", "k", "time_us_avg"),
        summary="matrix products of a TPU: M, N, K, time_us_avg",
        prepare=prepare,
        has_dtypes=True,
    )
)
sets.register("tpu-tiles")(
    Format(
        needed=("m", "n", "k", "tiles_m", "tiles_n", "time_us"),
        summary="matrix products of a TPU with XLA's tiles: M, N, K, tiles_M, tiles_N, time_us",
        prepare=prepare_tiled,
        has_dtypes=True,
    )
)
