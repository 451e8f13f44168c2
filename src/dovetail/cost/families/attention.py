"""Fused attention as rows of a graph, of one direction at a time."""

from __future__ import annotations

import numpy as np

from dovetail.cost.attention import (
    FIRST_FRAC,
    NUM_GRADIENTS,
    NUM_KERNELS,
    SYNCHRONOUS_FRAC,
    Attentions,
    attention_unit_s,
    score_flop,
    side_bytes,
)
from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.rows import (
    Costing,
    RowCosts,
    Rows,
    floor_s,
    loop_flop_per_s,
    stream_host_s,
    tensor_j_per_flop,
)
from dovetail.cost.mapping.attention import array_attention
from dovetail.cost.mapping.vector import streamed_bytes_per_s
from dovetail.cost.op_cost import Setting
from dovetail.workload.graph import FloatArray
from dovetail.workload.operators import code_of

_BEST, _FIRST = code_of("attention"), code_of("attention_1")


def attention_costing(rows: Rows) -> Costing:
    is_backward = bool(rows.is_backward[0])
    num_kernels = np.full((len(rows), 1), float(NUM_KERNELS[is_backward]))
    gradients = np.full((len(rows), 1), float(NUM_GRADIENTS if is_backward else 0))
    beside_bytes = rows.in_bytes + rows.out_bytes

    def parts(chips: ChipColumns, setting: Setting) -> RowCosts:  # noqa: ARG001  # regulators take longer than it runs
        shape = _shape(rows, chips, is_backward=is_backward)
        bandwidth = chips.hbm_bytes_per_s * chips.calibration["hbm_frac"] * chips.calibration["stream_frac"]
        streamed_bytes = beside_bytes
        if chips.are_arrays:
            found = array_attention(shape, chips)
            bandwidth = streamed_bytes_per_s(chips)
            tensor_s = found.busy_s
            streamed_bytes = beside_bytes + found.again_bytes
            unit_j = found.vector_flop * chips.vector_j_per_flop + found.nearest_bytes * chips.vector_memory_j_per_byte
            unit_j = unit_j + found.sram_bytes * chips.sram_j_per_byte
        else:
            tensor_s = attention_unit_s(shape, chips)
            unit_j = score_flop(shape) * chips.vector_j_per_flop
        apart_bytes = side_bytes(shape)
        hbm_bytes = streamed_bytes + apart_bytes
        return RowCosts(
            busy_s=np.maximum(tensor_s, streamed_bytes / bandwidth) + apart_bytes / bandwidth,
            clocked_s=tensor_s * tensor_s / np.maximum(tensor_s, streamed_bytes / bandwidth),
            num_kernels=num_kernels,
            hbm_bytes=hbm_bytes + np.zeros_like(tensor_s),
            core_j=rows.flop * tensor_j_per_flop(rows, chips) + unit_j + hbm_bytes * chips.sram_j_per_byte,
            flop=rows.flop,
            host_s=stream_host_s(rows, chips, num_kernels, gradients),
            floor_s=floor_s(chips, num_kernels, gradients),
        )

    return parts


def _pace_frac(rows: Rows, chips: ChipColumns) -> FloatArray:
    """Share of the best kernel's pace that kernels for older chips reach on each chip."""
    is_old = (rows.kind != _BEST)[:, None]
    return np.where(is_old & chips.is_output_hidden, SYNCHRONOUS_FRAC, 1.0)


def _shape(rows: Rows, chips: ChipColumns, *, is_backward: bool) -> Attentions:
    return Attentions(
        heads=rows.b,
        queries=rows.m,
        keys=rows.n,
        key_width=rows.k,
        value_width=rows.v,
        kv_frac=rows.kv_frac,
        work_frac=rows.work_frac,
        is_backward=is_backward,
        rate_flop_per_s=loop_flop_per_s(rows, chips),
        product_frac=np.where((rows.kind == _FIRST)[:, None], FIRST_FRAC, 1.0),
        pace_frac=_pace_frac(rows, chips),
        element_bytes=rows.element_bytes,
    )
