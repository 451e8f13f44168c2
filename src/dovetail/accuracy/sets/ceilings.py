"""What a card reaches at best: copies and sums of large buffers, and square products."""

from __future__ import annotations

import re

import numpy as np

from dovetail.accuracy.columns import bare_ops, product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.cost.costs import op_costs
from dovetail.cost.op_cost import Setting
from dovetail.hardware.chip import Chip
from dovetail.units import MEBI, MICRO
from dovetail.workload.graph import FloatArray, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, DTYPES, code_of

NEEDED = ("kind", "size", "time_us")
# Digits as many as any card holds: a TiB is 1,048,576 MiB, and a product of such sides would be TiB too.
_BUFFER = re.compile(r"(?P<mebi>[0-9]{1,7})MiB")
_SIDE = re.compile(r"[0-9]{1,6}")
_PRODUCT = re.compile(r"gemm_(?P<dtype>[a-z0-9]+)")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    words = list(zip(measurements.words("kind"), measurements.words("size"), strict=True))
    found = [ceiling_ops(kind, size) for kind, size in words]
    table = measurements.where(np.array([ops is not None for ops in found]))
    known = [ops for ops in found if ops is not None]
    if not known:
        raise measurements.refused("no row of this table is a copy, a sum of buffers or a square product")

    def predicted(chip: Chip) -> FloatArray:
        return np.array([float(op_costs(ops, chip, Setting.ALONE).compute_s[0]) for ops in known])

    one = Prepared(
        name=measurements.name,
        chip=chip,
        unit="s",
        kinds=tuple(table.words("kind")),
        whats=tuple(table.words("size")),
        measured=table.positive("time_us") * MICRO,
        predicted=predicted,
        skipped=(("rows of other kinds", len(words) - len(known)),) if len(known) < len(words) else (),
    )
    return (one,)


def ceiling_ops(kind: str, size: str) -> Ops | None:
    """The operator a row names: a buffer of so many MiB in bf16, or a cube of such a side; None for others."""
    if kind in ("copy", "add") and (match := _BUFFER.fullmatch(size)):
        num_elements = int(int(match["mebi"]) * MEBI // DTYPE_BYTES[DTYPES.index("bf16")])
        return bare_ops(kind=code_of(kind), phase=Phase.FORWARD, dtypes=["bf16"], extents=(1, num_elements, 1, 1, 1))
    if (match := _PRODUCT.fullmatch(kind)) and match["dtype"] in DTYPES and _SIDE.fullmatch(size):
        side = np.array([int(size)])
        return product_ops(1, side, side, side, kind="linear", phase=Phase.FORWARD, dtypes=[match["dtype"]])
    return None


sets.register("ceilings")(
    Format(needed=NEEDED, summary="copies, sums and square products: kind, size, time_us", prepare=prepare)
)
