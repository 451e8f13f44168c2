"""Power under sustained load: an operator again and again for seconds, and the mean watts of the board.

The operator is named in `op` and its shape in `detail`; small ones wait for the host between launches.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from dovetail.accuracy.columns import attention_ops, bare_ops, product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.cost.costs import op_costs
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.hardware.chip import Chip
from dovetail.units import MEBI
from dovetail.workload.graph import FloatArray, Ops, Phase
from dovetail.workload.operators import code_of

NEEDED = ("op", "watts_mean")
ELEMENT_BYTES = 2
CALL_KERNELS = 2  # queueing an operator from Python takes the host as long as autograd does for so many kernels
_PRODUCT = re.compile(r"(\d+)x(\d+)x(\d+)")
_CUBE = re.compile(r"(\d+)\^3")
_ATTENTION = re.compile(r"(\d+)x(\d+)x(\d+)x(\d+)( causal)?")
_GRID = re.compile(r"(\d+)x(\d+)")
_SIZE = re.compile(r"(\d+)MiB")
_VECTOR = ("gelu", "add", "silu", "softmax", "layernorm", "rmsnorm")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    details = measurements.words("detail") if measurements.has("detail") else [""] * len(measurements)
    words = list(zip(measurements.words("op"), details, strict=True))
    loads = [(op, detail, load_ops(op, detail)) for op, detail in words]
    known = [(op, detail, ops) for op, detail, ops in loads if ops is not None]
    if not known:
        raise measurements.refused("no row of this table is a load that can be predicted")
    table = measurements.where(np.array([ops is not None for _, _, ops in loads]))
    num_unknown = len(loads) - len(known)

    def predicted(chip: Chip) -> FloatArray:
        return np.array([sustained_w(ops, chip, is_still="zeros" in op) for op, _, ops in known])

    one = Prepared(
        name=measurements.name,
        chip=chip,
        unit="W",
        kinds=tuple(op for op, _, _ in known),
        whats=tuple(detail for _, detail, _ in known),
        measured=table.positive("watts_mean"),
        predicted=predicted,
        promise=promise_for(chip, "h200 power"),
        skipped=(("rows of loads that we do not predict", num_unknown),) if num_unknown else (),
    )
    return (one,)


def sustained_w(ops: Ops, chip: Chip, *, is_still: bool = False) -> float:
    """Mean watts of a chip that does nothing but `ops`, as fast as it and the host can; still: operands are zero."""
    cost = op_costs(ops, chip).total(np.ones(len(ops), dtype=np.bool_))
    if is_still:
        spared_j = (1 - chip.energy.still_frac) * cost.core_j
        cost = replace(cost, core_j=cost.core_j - spared_j, energy_j=cost.energy_j - spared_j)
    if cost.hbm_bytes <= chip.sram.capacity_bytes:  # from run to run its operands stay in the shared SRAM
        cost = replace(cost, energy_j=cost.core_j)
    host_s = len(ops) * CALL_KERNELS * chip.calibration.host_kernel_s
    load = Load(cost=replace(cost, host_s=host_s))
    return float(load.power_w(chip, sustained_clock_frac(load, chip)))


def load_ops(op: str, detail: str) -> Ops | None:
    """The operator that a row names, in bf16; no rows for an idle chip, None for what is not understood."""
    if op == "idle":
        return bare_ops(kind=0, phase=0, dtypes=[], extents=(1, 1, 1, 1, 1))
    if op.startswith("gemm") and (match := _CUBE.fullmatch(detail) or _PRODUCT.fullmatch(detail)):
        m, n, k = (np.array([int(size)]) for size in (match.groups() * 3)[:3])
        return product_ops(1, m, n, k, kind="linear", phase=Phase.FORWARD, dtypes=["bf16"])
    if op == "attention_fwd" and (match := _ATTENTION.fullmatch(detail)):
        batch, heads, seq, width = (np.array([int(size)]) for size in match.groups()[:4])
        share = np.array([0.5 if match[5] else 1.0])
        phase, whole = np.array([Phase.FORWARD]), np.array([1.0])
        return attention_ops(batch * heads, seq, width, kv_frac=whole, work_frac=share, phase=phase, dtypes=["bf16"])
    if op == "copy" and (match := _SIZE.fullmatch(detail)):
        elements = int(match[1]) * MEBI // ELEMENT_BYTES
        return bare_ops(kind=code_of("copy"), phase=Phase.FORWARD, dtypes=["bf16"], extents=(1, int(elements), 1, 1, 1))
    if op in _VECTOR and (match := _GRID.fullmatch(detail)):
        extents = (1, int(match[1]), int(match[2]), 1, 1)
        return bare_ops(kind=code_of(op), phase=Phase.FORWARD, dtypes=["bf16"], extents=extents)
    return None


sets.register("power")(Format(needed=NEEDED, summary="sustained power: op, detail, watts_mean", prepare=prepare))
