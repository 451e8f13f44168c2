"""Vector operators as rows of a graph: what they launch, as columns of kernels."""

from __future__ import annotations

import numpy as np

from dovetail.columns import is_among
from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.rows import TINY_S, Costing, RowCosts, Rows, floor_s, stream_host_s
from dovetail.cost.kernels import Access, Kernel, Launches, launches
from dovetail.cost.mapping.vector import array_kernel_times
from dovetail.cost.mapping.vector_slots import CONVERSION_SLOTS, WORD_BYTES, operator_slots
from dovetail.cost.op_cost import Setting
from dovetail.cost.vector import (
    MANY_ROWS,
    SORT_KERNELS,
    KernelRows,
    access_code,
    kernel_times,
    stream_code,
    wide_streams,
)
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.operators import FLOP_PER_ELEMENT, NUM_READS, NUM_WRITES, OPERATORS, code_of

# Kernels for the rows of each expert, where these are apart; biases are operators of their own for each, too.
_BIAS = code_of("expert_bias")
_BY_EXPERT = (code_of("amax"), code_of("quantize"), _BIAS)
_BIAS_OPS = 2.0  # of an expert: a product and a sum
_NUM_JOINT = np.array([2.0, 3.0])  # kernels for the biases of all experts, forward and backward


def vector_costing(rows: Rows) -> Costing:
    found = _launched(rows)
    kernels = _kernel_rows(rows, found)
    gradients = np.array([[float(launched.num_gradients)] for launched in found])
    num_kernels = np.array([[float(len(launched.kernels))] for launched in found]) + _sorting_kernels(rows, found)
    is_bias = (rows.kind == _BIAS)[:, None]
    num_joint = np.where(is_bias, _NUM_JOINT[rows.is_backward.astype(np.int64)][:, None], 0.0)
    num_experts = np.where(is_among(rows.kind, _BY_EXPERT)[:, None], rows.b, 1.0)
    num_kernels = num_joint + (num_kernels - num_joint) * num_experts
    num_ops = np.where(is_bias, _BIAS_OPS * rows.b + 1.0, 1.0)
    slots = np.add.reduceat(kernels.slots, np.flatnonzero(np.diff(kernels.operator, prepend=-1)), axis=0)
    slots = np.maximum(slots, rows.flop)

    array_slots = np.add.reduceat(kernels.array_slots, np.flatnonzero(np.diff(kernels.operator, prepend=-1)), axis=0)

    def parts(chips: ChipColumns, setting: Setting) -> RowCosts:  # noqa: ARG001  # power is the step's affair
        times = array_kernel_times(kernels, chips) if chips.are_arrays else kernel_times(kernels, chips)
        lanes_j = (array_slots if chips.are_arrays else slots) * chips.vector_j_per_flop
        nearest_j = times.nearest_bytes * chips.vector_memory_j_per_byte
        return RowCosts(
            busy_s=times.busy_s,
            clocked_s=times.lanes_s * times.lanes_s / np.maximum(np.maximum(times.lanes_s, times.hbm_s), TINY_S),
            num_kernels=num_kernels,
            hbm_bytes=times.hbm_bytes,
            core_j=lanes_j + nearest_j + times.hbm_bytes * chips.sram_j_per_byte,
            flop=rows.flop,
            host_s=stream_host_s(rows, chips, num_kernels, gradients, num_ops=num_ops),
            floor_s=floor_s(chips, num_kernels, gradients),
        )

    return parts


def _launched(rows: Rows) -> list[Launches]:
    """What each row launches; rows of one operator, direction and execution launch the same."""
    keys = list(zip(rows.kind.tolist(), rows.is_backward.tolist(), rows.is_fused.tolist(), strict=True))
    known = {key: _launches(*key) for key in set(keys)}
    return [known[key] for key in keys]


def _launches(code: int, is_backward: bool, is_fused: bool) -> Launches:
    own = Kernel(
        reads=float(NUM_READS[int(is_backward), code]),
        writes=float(NUM_WRITES[int(is_backward), code]),
        takes_side=True,
        lane_slots=float(FLOP_PER_ELEMENT[int(is_backward), code]),
    )
    return launches(OPERATORS[code].name, own, is_backward=is_backward, is_fused=is_fused)


def _sorting_kernels(rows: Rows, found: list[Launches]) -> FloatArray:
    """Kernels that a scatter of many rows launches before it: sorting their indices."""
    scatters = [any(kernel.access is Access.SCATTER for kernel in launched.kernels) for launched in found]
    return np.where(np.array(scatters)[:, None] & (rows.b * rows.m > MANY_ROWS), 1 + SORT_KERNELS, 0.0)


def _kernel_rows(rows: Rows, found: list[Launches]) -> KernelRows:
    operator = np.array([row for row, launched in enumerate(found) for _ in launched.kernels], dtype=np.int64)
    kernels = [kernel for launched in found for kernel in launched.kernels]

    def column(values: list[float]) -> FloatArray:
        return np.array(values, dtype=np.float64)[:, None]

    num_rows, cols, element_bytes = (rows.b * rows.m)[operator], rows.n[operator], rows.element_bytes[operator]
    is_on_table = np.array([kernel.is_on_table for kernel in kernels])[:, None]
    elements = np.where(is_on_table, rows.k[operator], num_rows) * cols
    takes_side = column([float(kernel.takes_side) for kernel in kernels])
    side_bytes = column([kernel.side_bytes for kernel in kernels]) + takes_side * rows.side_bytes[operator]
    tensors = column([kernel.reads + kernel.writes for kernel in kernels])
    moved_bytes = elements * (tensors * element_bytes + side_bytes)
    converted = elements * tensors * (element_bytes < WORD_BYTES) * CONVERSION_SLOTS
    counted, needs_row = _counted(rows)
    return KernelRows(
        operator=operator,
        access=np.array([access_code(kernel) for kernel in kernels], dtype=np.int64),
        streams=wide_streams(
            np.array([stream_code(kernel) for kernel in kernels], dtype=np.int64), element_bytes[:, 0]
        ),
        rows=num_rows,
        cols=cols,
        elements=elements,
        element_bytes=element_bytes,
        moved_bytes=moved_bytes,
        slots=_slots(operator, elements * column([kernel.lane_slots for kernel in kernels]), moved_bytes, rows.flop),
        array_slots=converted + _with_arithmetic(operator, counted, moved_bytes),
        needs_row=needs_row[operator],
        pool=rows.v[operator],
        reads=column([kernel.reads for kernel in kernels]),
        num_sweeps=column([float(kernel.num_sweeps) for kernel in kernels]),
        num_sums=column([float(kernel.num_sums) for kernel in kernels]),
        num_barriers=column([float(kernel.num_barriers) for kernel in kernels]),
    )


def _counted(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """ALU operations of each row beside arrays, conversions apart, and which rows are needed whole."""
    keys = list(zip(rows.kind.tolist(), rows.is_backward.tolist(), strict=True))
    known = {key: operator_slots(OPERATORS[key[0]].name, is_backward=key[1]) for key in set(keys)}
    found = [known[key] for key in keys]
    per_element = np.array([[np.nan if one is None else one.per_element] for one in found])
    slots = np.where(np.isnan(per_element), rows.flop, per_element * rows.b * rows.m * rows.n)
    return slots, np.array([[float(one is not None and one.needs_row)] for one in found])


def _with_arithmetic(operator: IntArray, counted: FloatArray, moved_bytes: FloatArray) -> FloatArray:
    """What was counted of each operator, as part of the kernel that moves most."""
    starts = np.flatnonzero(np.diff(operator, prepend=-1))
    slots = np.zeros((len(operator), 1))
    slots[np.lexsort((-moved_bytes[:, 0], operator))[starts]] = counted
    return slots


def _slots(operator: IntArray, counted: FloatArray, moved_bytes: FloatArray, flop: FloatArray) -> FloatArray:
    """Lane slots of kernels; what an operator's kernels count too few for its FLOP goes to the one that moves most.

    A multiply-add is one slot. Memory hides it on a GPU, but a chip of few lanes is no faster than they are.
    """
    starts = np.flatnonzero(np.diff(operator, prepend=-1))
    largest = np.lexsort((-moved_bytes[:, 0], operator))[starts]
    slots = counted.copy()
    slots[largest] += np.maximum(flop / 2 - np.add.reduceat(counted, starts, axis=0), 0.0)
    return slots
