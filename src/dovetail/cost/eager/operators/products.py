"""Matrix products: plain, batched, with a bias, and grouped by experts."""

from __future__ import annotations

from math import gcd

from dovetail.cost.eager.iterator import pointwise
from dovetail.cost.eager.launches import (
    Launched,
    ProductKernel,
    VectorKernel,
    distinct_bytes,
    item_bytes,
    number,
    register,
    result,
    tensors,
)
from dovetail.cost.families.rows import VECTOR_BYTES
from dovetail.workload.dispatched import DispatchedOp, TensorMeta


def product(name: str, left: TensorMeta, right: TensorMeta, out: TensorMeta, *, b: int = 1) -> ProductKernel:
    """`b` products of the last two dims; alignment and layout follow from strides."""
    m, k = left.shape[-2:]
    n = right.shape[-1]
    loads = [_load_bytes(one) for one in (left, right, out)]
    return ProductKernel(
        name=name,
        b=b,
        m=m,
        n=n,
        k=k,
        dtype=left.dtype,
        load_bytes=min(loads),
        is_row_by_row=_is_unit(left, -1) and _is_unit(right, -2),
        in_bytes=distinct_bytes(left) + distinct_bytes(right),
        out_bytes=float(out.num_bytes),
    )


def _is_unit(tensor: TensorMeta, dim: int) -> bool:
    return tensor.strides[dim] == 1 or tensor.shape[dim] == 1


def _load_bytes(tensor: TensorMeta) -> int:
    """Largest power of two, of 16 at most, that the starts of all rows (or columns) are multiples of."""
    size = item_bytes(tensor)
    rows, cols = tensor.shape[-2:]
    if _is_unit(tensor, -1):
        strides = [tensor.strides[-2]] if rows > 1 else [cols]
    elif _is_unit(tensor, -2):
        strides = [tensor.strides[-1]] if cols > 1 else [rows]
    else:  # PyTorch copies such an operand; what it multiplies is contiguous
        strides = [cols]
    strides += [stride for stride, length in zip(tensor.strides[:-2], tensor.shape[:-2], strict=True) if length > 1]
    found = int(VECTOR_BYTES)
    for stride in strides:
        found = gcd(found, stride * size)
    return found


def operand(tensor: TensorMeta) -> tuple[TensorMeta, Launched]:
    """What is multiplied: a tensor whose rows and columns are both spread out is copied first."""
    rows, cols = tensor.shape[-2:]
    strides = tensor.strides[-2:]
    is_rowed = strides[1] == 1 or cols == 1
    is_turned = strides[0] == 1 or rows == 1
    has_batch = len(tensor.shape) < 3 or tensor.shape[0] == 1 or tensor.strides[0] != 0
    if (is_rowed or is_turned) and has_batch:
        return tensor, ()
    dense = dense_like(tensor)
    return dense, pointwise("copy", dense, (tensor,))


def dense_like(tensor: TensorMeta) -> TensorMeta:
    strides, step = [], 1
    for size in reversed(tensor.shape):
        strides.append(step)
        step *= size
    return TensorMeta(shape=tensor.shape, strides=tuple(reversed(strides)), dtype=tensor.dtype)


def multiplied(name: str, left: TensorMeta, right: TensorMeta, out: TensorMeta, *, b: int = 1) -> Launched:
    if not out.num_elements:
        return ()
    if not left.shape[-1]:
        return pointwise("fill", out, ())
    (own_left, copied_left), (own_right, copied_right) = operand(left), operand(right)
    return (*copied_left, *copied_right, product(name, own_left, own_right, out, b=b))


@register("aten.mm")
def mm(op: DispatchedOp) -> Launched:
    left, right = tensors(op)[:2]
    return multiplied("mm", left, right, result(op))


@register("aten.addmm", "aten._addmm_activation")
def addmm(op: DispatchedOp) -> Launched:
    """A bias of one dim is added as results are written; a matrix is copied to the output first."""
    added, left, right = tensors(op)[:3]
    out = result(op)
    own = multiplied("mm", left, right, out)
    if len(added.shape) <= 1 or number(op, "beta", 1.0) == 0 or op.name.startswith("aten.addmm_"):
        return own
    return (*pointwise("copy", out, (added,)), *own)


@register("aten.bmm")
def bmm(op: DispatchedOp) -> Launched:
    left, right = tensors(op)[:2]
    return multiplied("bmm", left, right, result(op), b=left.shape[0])


@register("aten.baddbmm", "aten.addbmm")
def baddbmm(op: DispatchedOp) -> Launched:
    added, left, right = tensors(op)[:3]
    out = result(op)
    own = multiplied("bmm", left, right, out, b=left.shape[0])
    if number(op, "beta", 1.0) == 0 or op.name.startswith("aten.baddbmm_"):
        return own
    return (*pointwise("copy", out, (added,)), *own)


@register("aten.linear", "aten.matmul")
def linear(op: DispatchedOp) -> Launched:
    """Where PyTorch keeps a linear layer whole: its inputs are rows, its weight is turned."""
    source, weight = tensors(op)[:2]
    out = result(op)
    k = source.shape[-1]
    rows = source.num_elements // max(k, 1)
    left = dense_like(TensorMeta(shape=(rows, k), strides=(k, 1), dtype=source.dtype))
    n = out.shape[-1]
    right = TensorMeta(
        shape=(k, n), strides=weight.strides[::-1] if "linear" in op.name else weight.strides, dtype=weight.dtype
    )
    made = TensorMeta(shape=(rows, n), strides=(n, 1), dtype=out.dtype)
    return multiplied("mm", left, right, made)


@register("aten.mv", "aten.dot", "aten.vdot", "aten.addmv")
def matrix_vector(op: DispatchedOp) -> Launched:
    """As fast as its matrix is read."""
    found = tensors(op)
    return (
        VectorKernel(
            name="gemv", read_bytes=sum(distinct_bytes(one) for one in found), write_bytes=float(result(op).num_bytes)
        ),
    )


@register("aten.addr", "aten.outer", "aten.ger")
def outer(op: DispatchedOp) -> Launched:
    return pointwise("mul", result(op), ())


@register("aten._grouped_mm")
def grouped_mm(op: DispatchedOp) -> Launched:
    """One kernel for all experts, by as many rows each as offsets say; here the same number."""
    left, right = tensors(op)[:2]
    out = result(op)
    starts = VectorKernel(name="grouped_mm pointers")
    if len(left.shape) == 2 and len(right.shape) == 3:
        experts, k, n = right.shape
        rows = max(left.shape[0] // max(experts, 1), 1)
        shape = (experts, rows, n, k)
    elif len(left.shape) == 3 and len(right.shape) == 2:
        experts, m, k = left.shape
        shape = (experts, m, max(right.shape[1] // max(experts, 1), 1), k)
    elif len(left.shape) == 2:  # both by groups along the contraction: a weight gradient
        experts = out.shape[0]
        shape = (experts, left.shape[0], right.shape[1], max(left.shape[1] // max(experts, 1), 1))
    else:
        experts, m, k = left.shape
        shape = (experts, m, right.shape[2], k)
    b, m, n, k = shape
    is_weight = len(left.shape) == 2 and len(right.shape) == 2
    kernel = ProductKernel(
        name="grouped_mm", b=b, m=m, n=n, k=k, dtype=left.dtype, in_bytes=distinct_bytes(left) + distinct_bytes(right),
        out_bytes=float(out.num_bytes), pace=GROUPED_WEIGHT_PACE if is_weight else GROUPED_PACE * (1 + RAGGED_ROWS / m),
    )  # fmt: skip
    return (starts, kernel)


# Against batched products, whose tiles a persistent kernel deals out (grouped_mm of eager_ops.csv, 2 rows; 38 kernels
# of profiled steps, of weight gradients among them).
GROUPED_PACE, GROUPED_WEIGHT_PACE = 0.94, 1.36
RAGGED_ROWS = 32  # rows that the last tile of an expert has too many, on average


@register("aten._scaled_mm")
def scaled_mm(op: DispatchedOp) -> Launched:
    left, right = tensors(op)[:2]
    return (product("scaled_mm", left, right, result(op)),)
