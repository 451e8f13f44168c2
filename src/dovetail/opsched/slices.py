"""Operators and chips become scheduling problems: what each operator costs in every slice of every chip.

A slice is some cores of a kind, 1, 2, 4 and so on or all, before all of the HBM and the SRAM. Its cost is the cost
model's for a chip of so many cores (`cost.costs`), so an operator alone on all of the chip takes what `op_costs` says.
What it uses of the bandwidths in that time is its need, and needs add up. See docs/model/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dovetail.cost.columns import ChipColumns, grouped
from dovetail.cost.costs import cost_table
from dovetail.cost.own_costs import refuse_own_costs
from dovetail.hardware.chip import Chip
from dovetail.opsched.problem import HBM, RESOURCES, SRAM, SRAM_BYTES, TENSOR, VECTOR, WHOLE
from dovetail.workload.graph import FloatArray, IntArray, Ops
from dovetail.workload.operators import ATTENTION_CODES, DTYPE_BYTES, Unit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slices:
    """Slices of many chips, one array entry each: those of chip c are `start[c]:start[c+1]`.

    `is_tensor` tells slices for products, with the vector cores beside their tensor cores, from those of vector cores.
    """

    start: IntArray
    chip: IntArray
    is_tensor: npt.NDArray[np.bool_]
    num_tensor: IntArray
    num_vector: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceCosts:
    """What every operator takes in every slice, operators by slices: seconds, or CANNOT; and needs, by RESOURCES."""

    slices: Slices
    compute_s: FloatArray
    need: IntArray


CANNOT = -1.0


def splits(num_cores: int) -> tuple[int, ...]:
    """1, 2, 4, ... and all."""
    return (*(2**power for power in range(num_cores.bit_length()) if 2**power < num_cores), num_cores)


def slices_of(chips: Sequence[Chip]) -> Slices:
    rows: list[tuple[int, bool, int, int]] = []
    starts = [0]
    for index, chip in enumerate(chips):
        num_tensor, num_vector = chip.tensor.num_units, chip.vector.num_units
        rows.extend((index, True, k, -(-k * num_vector // num_tensor)) for k in splits(num_tensor))
        rows.extend((index, False, num_tensor, k) for k in splits(num_vector))
        starts.append(len(rows))
    chip_index, is_tensor, tensor, vector = (np.array(column) for column in zip(*rows, strict=True))
    return Slices(
        start=np.array(starts, dtype=np.int64),
        chip=chip_index,
        is_tensor=is_tensor,
        num_tensor=tensor,
        num_vector=vector,
    )


def slice_costs(ops: Ops, chips: Sequence[Chip], collective_s: FloatArray) -> SliceCosts:
    """Every operator in every slice; rows of the network take `collective_s` and no cores."""
    refuse_own_costs(ops, {chip.name for chip in chips}, "operators are scheduled on parts of a chip")
    slices = slices_of(chips)
    shape = (len(ops), len(slices.chip))
    compute_s, need = np.full(shape, CANNOT), np.zeros((*shape, len(RESOURCES)), dtype=np.int64)
    for places, whole in grouped(chips):
        for unit in (Unit.TENSOR, Unit.VECTOR):
            rows = np.flatnonzero(ops.unit == unit)
            mine = np.flatnonzero((slices.is_tensor == (unit == Unit.TENSOR)) & np.isin(slices.chip, places))
            if len(rows):
                which = np.searchsorted(places, slices.chip[mine])
                filled = _filled(ops.taken(rows), slices, mine, whole, which)
                compute_s[np.ix_(rows, mine)], need[np.ix_(rows, mine)] = filled
    idle = np.flatnonzero((ops.unit == Unit.NONE) | (ops.unit == Unit.NETWORK))
    compute_s[np.ix_(idle, slices.start[:-1])] = np.where(ops.unit == Unit.NETWORK, collective_s, 0.0)[idle][:, None]
    return SliceCosts(slices=slices, compute_s=compute_s, need=need)


def _filled(
    ops: Ops, slices: Slices, mine: IntArray, whole: ChipColumns, which: IntArray
) -> tuple[FloatArray, IntArray]:
    """Seconds and needs of operators of one kind in the slices `mine`, cut from the chips `which` of `whole`."""
    costs = cost_table(ops, _slice_columns(slices, mine, whole, which))
    hbm_bytes_per_s = (whole.hbm_bytes_per_s * whole.calibration["hbm_frac"])[which]
    sram_bytes_per_s = whole.sram_bytes_per_s[which]
    # an operator is never faster than its bytes: what it needs of a bandwidth is then at most all of it
    compute_s = np.maximum(costs.compute_s, costs.hbm_bytes / hbm_bytes_per_s)
    # at a joule a byte of SRAM, `core_j` is the bytes of tiles that cores read and of what comes from HBM
    sram_bytes = np.maximum(costs.core_j - costs.hbm_bytes, costs.hbm_bytes)
    compute_s = np.maximum(compute_s, sram_bytes / sram_bytes_per_s)
    lasts_s = np.maximum(compute_s, np.finfo(np.float64).tiny)
    need = np.zeros((*compute_s.shape, len(RESOURCES)), dtype=np.int64)
    is_product = (ops.unit == Unit.TENSOR)[:, None]
    is_attention = np.isin(ops.kind, ATTENTION_CODES)[:, None]
    need[..., TENSOR] = np.where(is_product, slices.num_tensor[mine], 0)
    need[..., VECTOR] = np.where(~is_product | is_attention, slices.num_vector[mine], 0)
    need[..., HBM] = _parts(costs.hbm_bytes / lasts_s, hbm_bytes_per_s)
    need[..., SRAM] = _parts(sram_bytes / lasts_s, sram_bytes_per_s)
    need[..., SRAM_BYTES] = _parts(_block_bytes(ops)[:, None], whole.sram_bytes[which])
    return compute_s, need


def _parts(amount: FloatArray, whole: FloatArray) -> IntArray:
    """`amount` in parts of WHOLE, rounded up, and no more than all."""
    return np.minimum(np.ceil(WHOLE * amount / whole), WHOLE).astype(np.int64)


def _block_bytes(ops: Ops) -> FloatArray:
    """Shared SRAM that a product needs so as to read its operands once: a square block of results of its short side.

    The same rule by which `cost.families.products` lets a product that gets less read operands again.
    """
    short = np.minimum(ops.extents[:, 1], ops.extents[:, 2]).astype(np.float64)
    is_block = (ops.unit == Unit.TENSOR) & ~np.isin(ops.kind, ATTENTION_CODES)
    return np.where(is_block, short * short * DTYPE_BYTES[ops.dtype], 0.0)


def _slice_columns(slices: Slices, mine: IntArray, whole: ChipColumns, which: IntArray) -> ChipColumns:
    """Every slice as a chip of its own. A joule a byte through the SRAM, and none for all else, counts these bytes."""
    copies = whole.at(which)
    nothing = np.zeros(len(mine))
    tensor_frac = slices.num_tensor[mine] / copies.num_units
    lanes = copies.num_lanes / whole_vectors(slices, mine)
    return replace(
        copies,
        num_units=slices.num_tensor[mine].astype(np.float64),
        dtype_flop_per_s=copies.dtype_flop_per_s * tensor_frac,
        num_lanes=lanes * slices.num_vector[mine],
        vector_flop_per_s=copies.vector_flop_per_s / whole_vectors(slices, mine) * slices.num_vector[mine],
        tensor_j_per_flop=nothing,
        vector_j_per_flop=nothing,
        hbm_j_per_byte=nothing,
        sram_j_per_byte=np.ones(len(mine)),
        vector_memory_j_per_byte=np.where(copies.has_vmem, 0.0, 1.0),
    )


def whole_vectors(slices: Slices, mine: IntArray) -> IntArray:
    """Vector cores of the whole chip that each slice is cut from: what its largest slice has."""
    most = np.maximum.reduceat(slices.num_vector, slices.start[:-1])
    return np.asarray(most[slices.chip[mine]])
