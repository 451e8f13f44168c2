"""Matrix products that others measured on a TPU: M, N, K and the mean of some runs in microseconds."""

from __future__ import annotations

from dataclasses import replace

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, promise_for, typed
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.gemm import products
from dovetail.cost.op_cost import Setting
from dovetail.units import MICRO

TPU = "tpu-v5e"  # the table does not name its chip; operands are fp32 and multiplied in bf16, as JAX does by default


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given, TPU)
    promise = promise_for(chip, "tpu gemm", TPU)
    one = products(typed(measurements, given, chip), chip, "time_us_avg", MICRO, promise, Setting.KERNEL, stored="fp32")
    return (replace(one, name=f"gemm {chip.name}", kinds=("matmul",) * len(one.kinds)),)


sets.register("tpu-gemm")(
    Format(
        needed=("m", "n", "k", "time_us_avg"),
        summary="matrix products of a TPU: M, N, K, time_us_avg",
        prepare=prepare,
        has_dtypes=True,
    )
)
