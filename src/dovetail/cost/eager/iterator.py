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

# Lane slots an element, fitted on 45 rows of eager_ops.csv (mul_col_bf16, rope_mul, permute_contiguous, repeat_kv,
# to_fp32, logits_float, mul_mixed) and on 1,100 kernels of 58 profiled steps (one H200, PyTorch 2.11).
STRIDED_SLOTS, STRIDED_OPERAND_SLOTS = 50.0, 6.0  # loads one by one, and their addresses
DIM_SLOTS, DIM_OPERAND_SLOTS = 7.4, 1.9  # a division for each dim left, and an offset of each input
# saved where the one operand is expanded: its loads find the first cache (40 kernels of profiles)
EXPANDED_SLOTS = 14.0
WIDE_RATIO = 1.17  # elements of 4 bytes and more come two to a thread, narrower ones four (CUDALoops.cuh)
CAST_SLOTS, CAST_OPERAND_SLOTS = 42.0, 26.0  # operands side by side, dtypes mixed: a switch on the dtype of each
STRIDED_CAST_SLOTS = 15.0  # the same switch an operand, where loads are one by one anyway
APART_SLOTS = 80.0  # lanes of a warp whose elements lie in lines of their own: as many accesses, one after another
LINE_BYTES = 128.0  # of the first cache
BLOCK_ELEMENTS = 512.0  # of a block of 128 threads, four each: what finds its sectors in the first cache
WIDE_BYTES = 4
SECTOR_RATIO = 1.07  # sectors that a warp's accesses split (contiguous_t of eager_ops.csv, 5 rows)
# Round trips of their start beyond a vectorised kernel's (40 small kernels of profiled steps).
STRIDED_STEPS, UNROLLED_STEPS = 1.3, 1.9
AGAIN_FRAC = 0.75  # of that, where an expanded operand is read again and again (T5's bias, 4 kernels of profiles)
SPREAD_SLOTS = 33.0  # an element written beside gaps: parts of sectors (8 kernels of profiles)
# of their slots that wait for memory: saved where the shared cache has it (casts of 25 MB, 6 kernels)
WAITS_FRAC = 0.18
MAX_INDEX_BYTES = 2.0**31  # operands beyond it are cut in halves, so that 32-bit offsets do (TensorIterator.cpp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """Sizes left after merging, the fastest first, with the strides of every operand (the output first)."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # by operand

    @property
    def is_contiguous(self) -> bool:
        return len(self.extents) == 0 or (len(self.extents) == 1 and all(strides[0] == 1 for strides in self.strides))


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
    extents: list[int] = []
    left: list[list[int]] = [[] for _ in every]
    for dim in dims:
        if extents and all(own[-1] * extents[-1] == of[dim] for own, of in zip(left, strides, strict=True)):
            extents[-1] *= out.shape[dim]
            continue
        extents.append(out.shape[dim])
        for own, of in zip(left, strides, strict=True):
            own.append(of[dim])
    return Iteration(extents=tuple(extents), strides=tuple(map(tuple, left)))


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
    is_cast: bool | None = None,
) -> tuple[VectorKernel, ...]:
    """An element-wise kernel from `operands` to `out` (and `outputs` beside it); `slots` an element of its function.

    `is_cast` says whether elements are cast on the way, where the dtypes alone do not: a condition is of another dtype.
    Tensors beyond 2 GiB are cut in halves, a kernel each.
    """
    elements = float(out.num_elements)
    if not elements:
        return ()
    walked = iteration(out, operands)
    reads = sum(distinct_bytes(one) for one in operands)
    writes = sum(float(one.num_elements * item_bytes(one)) for one in (out, *outputs))
    num_operands = len(operands) + 1 + len(outputs)
    is_mixed = len({one.dtype for one in (out, *operands, *outputs)}) > 1 if is_cast is None else is_cast
    word, own_slots, sram_bytes = "vectorized", slots, 0.0
    if walked.is_contiguous and is_mixed and operands:
        word, own_slots = "unrolled", max(slots, CAST_SLOTS + CAST_OPERAND_SLOTS * num_operands)
    elif not walked.is_contiguous:
        word, count = "strided", len(operands)
        own_slots = STRIDED_SLOTS + STRIDED_OPERAND_SLOTS * count
        own_slots += len(walked.extents) * (DIM_SLOTS + DIM_OPERAND_SLOTS * count)
        own_slots -= EXPANDED_SLOTS if count == 1 and any(stride == 0 for stride in walked.strides[1]) else 0.0
        own_slots *= WIDE_RATIO if item_bytes(out) >= WIDE_BYTES and not is_mixed else 1.0
        own_slots += STRIDED_CAST_SLOTS * num_operands if is_mixed else 0.0
        own_slots = max(own_slots, slots) + APART_SLOTS * apart_frac(walked, (out, *operands))
        own_slots += SPREAD_SLOTS if walked.strides[0][0] > 1 else 0.0
        sram_bytes = sectors_bytes(walked, (out, *operands))
    largest = max(float(one.num_elements * item_bytes(one)) for one in (out, *operands, *outputs))
    num_kernels = 1
    while largest / num_kernels > MAX_INDEX_BYTES:
        num_kernels *= 2
    is_copied = name == "copy" and word == "vectorized" and out.dtype == operands[0].dtype
    kernel = VectorKernel(
        name="memcpy" if is_copied else f"{word} {name}",
        is_cold=is_copied or not operands,
        is_counted=word == "vectorized",
        waits_frac=0.0 if word == "vectorized" else WAITS_FRAC,
        read_bytes=reads / num_kernels,
        write_bytes=writes / num_kernels,
        slots=elements * own_slots / num_kernels,
        sram_bytes=sram_bytes / num_kernels,
        steps={"vectorized": 0.0, "unrolled": UNROLLED_STEPS, "strided": STRIDED_STEPS}[word],
        rows=1.0,
        cols=elements / num_kernels,
        element_bytes=float(item_bytes(out)),
    )
    return (kernel,) * num_kernels


def apart_frac(walked: Iteration, operands: Sequence[TensorMeta]) -> float:
    """How far the elements of neighbouring lanes lie apart, of a line each at most, in the worst operand."""
    steps = [
        strides[0] * item_bytes(one) for one, strides in zip(operands, walked.strides, strict=True) if strides[0] > 1
    ]
    return min(1.0, max(steps, default=0) / LINE_BYTES)


def sectors_bytes(walked: Iteration, operands: Sequence[TensorMeta]) -> float:
    """Bytes that operands whose neighbours lie apart take from the shared cache, in whole sectors.

    A block that walks several rows of the fastest dim finds the rest of a sector in the first cache, where the next
    row is the sector's next element.
    """
    elements = 1.0
    for size in walked.extents:
        elements *= size
    found = 0.0
    for tensor, strides in zip(operands, walked.strides, strict=True):
        size = item_bytes(tensor)
        if strides[0] <= 1:
            continue
        sector = min(SECTOR_BYTES, strides[0] * size)
        is_next = len(strides) > 1 and 0 < strides[1] * size < SECTOR_BYTES
        shared = max(1.0, min(SECTOR_BYTES / size, BLOCK_ELEMENTS / walked.extents[0])) if is_next else 1.0
        is_again = any(stride == 0 for stride in strides)  # expanded: it stays in the cache
        found += elements * max(sector / shared, size) * (AGAIN_FRAC if is_again else 1.0)
    return SECTOR_RATIO * found
