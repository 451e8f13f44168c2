"""Measured seconds in place of predicted ones: matched exactly by what an operator is, nothing interpolated.

A product is the same product transposed (C^T = B^T A^T), whichever of a layer's it is; operators of the vector units
are rows by columns; attention has its mask. Of the passes, forward and backward are kept apart, no further: the two
gradients of a product differ in what they contract over.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from dovetail.cost.op_cost import OpCosts
from dovetail.hardware.chip import Chip
from dovetail.hardware.measured import BACKWARD, FORWARD, UPDATE, Measured, MeasuredOp, merged
from dovetail.workload.graph import B, FloatArray, K, M, N, Ops, Phase, V
from dovetail.workload.operators import ATTENTIONS, DTYPES, OPERATORS, Unit, code_of

Key = tuple[str | int | float, ...]
PRODUCTS = ("linear", "matmul", "expert_linear")
_PASS = {
    Phase.FORWARD: FORWARD,
    Phase.RECOMPUTE: FORWARD,
    Phase.INPUT_GRAD: BACKWARD,
    Phase.WEIGHT_GRAD: BACKWARD,
    Phase.UPDATE: UPDATE,
}
NO_KEY: Key = ()


def with_measured(ops: Ops, chip: Chip, costs: OpCosts) -> OpCosts:
    """`costs` with the seconds that were measured on `chip`, on the rows that were.

    The clock that they ran at is in them: none stretches or saves anything of them again, and in their time they spend
    what is predicted, but no more than the power limit grants. Traffic and the host's share stay as predicted.
    """
    if not chip.measured:
        return costs
    measured_s = measured_run_s(ops, chip.measured)
    is_measured = np.isfinite(measured_s)
    granted_j = (chip.tdp_w - chip.energy.idle_w) * measured_s
    return replace(
        costs,
        compute_s=np.where(is_measured, measured_s, costs.compute_s),
        clocked_s=np.where(is_measured, 0.0, costs.clocked_s),
        energy_j=np.where(is_measured, np.minimum(costs.energy_j, granted_j), costs.energy_j),
        core_j=np.where(is_measured, 0.0, costs.core_j),
    )


def measured_run_s(ops: Ops, measured: Measured) -> FloatArray:
    """Of each row, what a run of it took; nan where it was not measured."""
    known = _run_s(measured)
    return np.array([known.get(key, np.nan) if key else np.nan for key in row_keys(ops)])


@lru_cache(maxsize=8)
def _run_s(measured: Measured) -> dict[Key, float]:
    """Seconds of one run by key; of several operators with one key, the mean over all their runs."""
    total: dict[Key, list[float]] = {}
    for op in merged(measured.ops):
        if key := op_key(op):
            sums = total.setdefault(key, [0.0, 0.0])
            sums[0] += op.total_s
            sums[1] += op.num_runs
    return {key: time_s / num_runs for key, (time_s, num_runs) in total.items()}


def op_key(op: MeasuredOp) -> Key:
    """What a measured operator is matched by; nothing for one that stands for several rows of a graph."""
    if op.kind == "convolution" and op.phase == BACKWARD:
        return NO_KEY
    return _key(op.kind, op.phase, op.dtype, op.extents, op.work_frac, op.stride)


def row_keys(ops: Ops) -> list[Key]:
    """What each row of a graph is matched by; nothing for rows that no profile has as one operator."""
    units = ops.unit
    columns = zip(
        ops.kind.tolist(),
        ops.phase.tolist(),
        np.where(units == Unit.TENSOR, ops.math, ops.dtype).tolist(),
        ops.extents.tolist(),
        ops.work_frac.tolist(),
        ops.stride.tolist(),
        strict=True,
    )
    return [
        _key(OPERATORS[kind].name, _PASS[Phase(phase)], DTYPES[dtype], tuple(extents), work_frac, stride)
        for kind, phase, dtype, extents, work_frac, stride in columns
    ]


def _key(kind: str, phase: str, dtype: str, extents: tuple[int, ...], work_frac: float, stride: int) -> Key:
    b, m, n, k, v = (extents[index] for index in (B, M, N, K, V))
    unit = OPERATORS[code_of(kind)].unit
    if kind in PRODUCTS:
        return ("product", phase, dtype, b, min(m, n), max(m, n), k, work_frac)
    if kind in ATTENTIONS:
        return ("attention", phase, dtype, b, m, n, k, v, work_frac)
    if kind == "convolution" and phase == FORWARD:
        return (kind, phase, dtype, b, m, n, k, v, stride)
    if unit == Unit.VECTOR:
        return (kind, phase, dtype, b * m, n, work_frac)
    return NO_KEY
