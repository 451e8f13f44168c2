"""PyTorch's TensorIterator: operands broadcast, dims merged, and the kernel that follows from what is left.

Operands of one dtype that lie in memory in the same way are one vectorised stream. Others take a kernel that finds each
element's place by a division for every dim that is left, and loads elements one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.cost.eager.launches import VectorKernel, distinct_bytes, item_bytes
from dovetail.cost.vector import SECTOR_BYTES
from dovetail.workload.dispatched import TensorMeta

# Lane slots an element, fitted on eager_ops.csv (one H200, PyTorch 2.11): mul_col_bf16, rope_mul, permute_contiguous,
# repeat_kv (28 rows) and, with casts, to_fp32, logits_float, mul_mixed (14 rows).
STRIDED_SLOTS = 60.3  # loads one by one, and their addresses
DIM_SLOTS = 3.3  # a division for each dim left
OPERAND_SLOTS = 3.7  # a dim, an operand: its offset
CAST_SLOTS, CAST_OPERAND_SLOTS = 54.0, 20.0  # operands side by side, dtypes mixed: a switch on the dtype of each
STRIDED_CAST_SLOTS = 13.4  # the same switch an operand, where loads are one by one anyway


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """Sizes left after merging, the fastest first, with the strides of every operand (the output first)."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # by operand

    @property
    def is_contiguous(self) -> bool:
        return len(self.sizes) == 0 or (len(self.sizes) == 1 and all(strides[0] == 1 for strides in self.strides))


def iteration(out: TensorMeta, operands: Sequence[TensorMeta]) -> Iteration:
    """How TensorIterator walks: dims ordered by the strides of the output, then of each input, and merged."""
    every = (out, *operands)
    ndim = len(out.shape)
    strides = [_expanded(one, out.shape) for one in every]
    dims = [dim for dim in range(ndim - 1, -1, -1) if out.shape[dim] != 1]
    for place in range(1, len(dims)):  # insertion sort, as TensorIteratorBase::reorder_dimensions has it
        here = place
        while here > 0 and _is_before(dims[here], dims[here - 1], strides, out.shape):
            dims[here], dims[here - 1] = dims[here - 1], dims[here]
            here -= 1
    sizes: list[int] = []
    left: list[list[int]] = [[] for _ in every]
    for dim in dims:
        if sizes and all(own[-1] * sizes[-1] == of[dim] for own, of in zip(left, strides, strict=True)):
            sizes[-1] *= out.shape[dim]
            continue
        sizes.append(out.shape[dim])
        for own, of in zip(left, strides, strict=True):
            own.append(of[dim])
    return Iteration(sizes=tuple(sizes), strides=tuple(map(tuple, left)))


def _expanded(tensor: TensorMeta, shape: tuple[int, ...]) -> tuple[int, ...]:
    missing = len(shape) - len(tensor.shape)
    if missing < 0:  # an input of more dims than the output: leading ones of size 1
        return tuple(tensor.strides[-missing:])
    padded = (1,) * missing + tensor.shape
    strides = (0,) * missing + tensor.strides
    return tuple(
        stride if own == size and size != 1 else 0 for own, stride, size in zip(padded, strides, shape, strict=True)
    )


def _is_before(dim: int, other: int, strides: list[tuple[int, ...]], shape: tuple[int, ...]) -> bool:
    """Whether `dim` must be faster than `other`: the first operand that tells them apart says so."""
    for of in strides:
        if of[dim] == 0 or of[other] == 0 or (of[dim] == of[other] and shape[dim] == shape[other]):
            continue
        if of[dim] == of[other]:
            return shape[dim] < shape[other]
        return of[dim] < of[other]
    return False


def pointwise(
    name: str,
    out: TensorMeta,
    operands: Sequence[TensorMeta],
    *,
    slots: float = 0.0,
    outputs: Sequence[TensorMeta] = (),
    streams: int = 0,
) -> VectorKernel:
    """One element-wise kernel from `operands` to `out` (and `outputs` beside it); `slots` an element of its function."""
    elements = float(out.num_elements)
    walked = iteration(out, operands)
    reads = sum(distinct_bytes(one) for one in operands)
    writes = sum(float(one.num_elements * item_bytes(one)) for one in (out, *outputs))
    num_operands = len(operands) + 1 + len(outputs)
    is_mixed = len({one.dtype for one in (out, *operands, *outputs)}) > 1
    word, own_slots, sram_bytes = "vectorized", slots, 0.0
    if walked.is_contiguous and is_mixed and operands:
        word, own_slots = "unrolled", max(slots, CAST_SLOTS + CAST_OPERAND_SLOTS * num_operands)
    elif not walked.is_contiguous:
        word = "strided"
        own_slots = STRIDED_SLOTS + len(walked.sizes) * (DIM_SLOTS + OPERAND_SLOTS * len(operands))
        own_slots += STRIDED_CAST_SLOTS * num_operands if is_mixed else 0.0
        own_slots = max(own_slots, slots)
        sram_bytes = sectors_bytes(walked, (out, *operands))
    return VectorKernel(
        name=f"{word} {name}",
        read_bytes=reads,
        write_bytes=writes,
        streams=streams or (2 if operands else 0),
        slots=elements * own_slots,
        sram_bytes=sram_bytes,
        rows=1.0,
        cols=elements,
        element_bytes=float(item_bytes(out)),
    )


def sectors_bytes(walked: Iteration, operands: Sequence[TensorMeta]) -> float:
    """Bytes that pass the shared cache in whole sectors: an operand whose neighbours lie apart takes one an element."""
    elements = 1.0
    for size in walked.sizes:
        elements *= size
    found, is_apart = 0.0, False
    for tensor, strides in zip(operands, walked.strides, strict=True):
        stride_bytes = strides[0] * item_bytes(tensor)
        found += elements * (min(SECTOR_BYTES, stride_bytes) if stride_bytes else 0.0)
        is_apart = is_apart or stride_bytes > item_bytes(tensor)
    return found if is_apart else 0.0
