"""Sums, means, extremes, norms and scans: along rows, down columns, or over everything."""

from __future__ import annotations

from typing import Any

from dovetail.cost.eager.iterator import pointwise
from dovetail.cost.eager.launches import Launched, VectorKernel, distinct_bytes, first, numbers, register, result
from dovetail.cost.kernels import Access
from dovetail.workload.dispatched import DispatchedOp, TensorMeta

# Rows of a few elements: slots of a row's own sum over a warp (mean and sum over heads of 128, 21 kernels of profiles).
ROW_SLOTS = 9400.0
ELEMENT_SLOTS = (
    32.0  # an element of one or two bytes, which no load brings enough of (`all` and `max`, 4 kernels of those)
)
LEAST_STEPS = 3.0  # round trips of the smallest
SPREAD_SLOTS = 53.0  # an element whose place takes a division: the dims added up do not merge (12 kernels of profiles)
# Fitted on mean_last_fp32 of eager_ops.csv (5 rows): round trips of a block that adds up rows, where the chip is full.
ROW_STEPS = 8.0
FULL_ELEMENTS = 64.0 * 132 * 2048  # enough for 64 elements of each thread of the H200: fewer wait less
ALL_STEPS = 12.0  # partial sums of all blocks handed in and added by the last; estimate: half of a column sum's 24
SCAN_STEPS = 16.0  # a scan hands its sum from block to block; estimate
SCAN_SLOTS = 40.0  # additions of a scan's tree; estimate
REDUCTIONS = (
    "sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "var", "std", "var_mean", "std_mean",
    "logsumexp", "norm", "linalg_vector_norm", "nansum", "count_nonzero", "aminmax", "_log_softmax_sum",
)  # fmt: skip


def reduction(name: str, source: TensorMeta, out: TensorMeta, dims: tuple[int, ...]) -> VectorKernel:
    """One pass over `source`; what waits follows from where the dims that are added up lie in memory."""
    ndim = len(source.shape)
    reduced = {dim % ndim for dim in dims} if dims and ndim else set(range(ndim))
    read_bytes, write_bytes = distinct_bytes(source), float(out.num_bytes)
    elements = float(source.num_elements)
    kept = max(float(out.num_elements), 1.0)
    own: dict[str, Any] = {
        "element_bytes": read_bytes / max(elements, 1.0),
        "read_bytes": read_bytes,
        "write_bytes": write_bytes,
    }
    if out.num_elements <= 1:
        return VectorKernel(
            name=f"reduce all {name}",
            streams=1,
            steps=ALL_STEPS * _filled(elements),
            slots=ELEMENT_SLOTS * elements,
            cols=elements,
            **own,
        )
    fastest = min((d for d in range(ndim) if source.shape[d] > 1), key=lambda d: source.strides[d] or 1, default=0)
    if fastest in reduced:
        is_spread = not _is_merged(source, reduced)
        slots = max(kept * ROW_SLOTS, (SPREAD_SLOTS if is_spread else ELEMENT_SLOTS) * elements)
        steps = max(ROW_STEPS * _filled(elements), LEAST_STEPS)
        return VectorKernel(name=f"reduce rows {name}", streams=1, steps=steps, slots=slots, cols=elements, **own)
    return VectorKernel(
        name=f"reduce columns {name}", access=Access.COLUMN_SUM, rows=max(elements / kept, 1.0), cols=kept, streams=1,
        slots=kept * RESULT_SLOTS, **own,
    )  # fmt: skip


RESULT_SLOTS = 190.0  # a sum that is written (sums over 2 and 8 rows, 14 kernels of profiles)


def _is_merged(source: TensorMeta, reduced: set[int]) -> bool:
    """Whether the dims that are added up are one run of memory."""
    dims = sorted((d for d in reduced if source.shape[d] > 1), key=lambda d: source.strides[d])
    step = 1
    for dim in dims:
        if source.strides[dim] != step:
            return False
        step *= source.shape[dim]
    return True


def _filled(elements: float) -> float:
    return min(1.0, elements / FULL_ELEMENTS)


def _reduced(op: DispatchedOp) -> Launched:
    source = first(op)
    if not source.num_elements:
        return ()
    return (reduction(op.name.split(".")[1], source, result(op), numbers(op, "dim")),)


for _name in REDUCTIONS:
    register(f"aten.{_name}")(_reduced)
register(
    "aten.max.dim", "aten.min.dim", "aten.max.default", "aten.min.default", "aten.median.dim", "aten.max", "aten.min"
)(_reduced)


@register("aten.max.other", "aten.min.other")
def extreme_of_two(op: DispatchedOp) -> Launched:
    return pointwise("maximum", result(op), [one for one in op.inputs if one is not None])


@register("aten.cumsum", "aten.cumprod", "aten.logcumsumexp", "aten.cummax", "aten.cummin")
def scan(op: DispatchedOp) -> Launched:
    source, out = first(op), result(op)
    if not source.num_elements:
        return ()
    slots = SCAN_SLOTS * source.num_elements
    moved: dict[str, Any] = {"read_bytes": distinct_bytes(source), "write_bytes": float(out.num_bytes)}
    return (
        VectorKernel(name="scan", streams=1, slots=slots, steps=SCAN_STEPS * _filled(source.num_elements), **moved),
    )


@register("aten.mse_loss", "aten.smooth_l1_loss", "aten.huber_loss", "aten.l1_loss", "aten.binary_cross_entropy")
def elementwise_loss(op: DispatchedOp) -> Launched:
    """The loss of every element, then its mean."""
    source, out = first(op), result(op)
    inputs = [one for one in op.inputs if one is not None]
    losses = TensorMeta(shape=source.shape, strides=source.strides, dtype=source.dtype)
    each = pointwise("loss", losses, inputs)
    return each if out.num_elements > 1 else (*each, reduction("mean", losses, out, ()))


register("aten.binary_cross_entropy_backward")(
    lambda op: pointwise("loss", result(op), [o for o in op.inputs if o is not None])
)
