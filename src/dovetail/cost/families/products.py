"""Products with weights and of activations: linear layers, experts, recurrences, scores that are written out."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from dovetail.columns import is_among
from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.rows import (
    Costing,
    RowCosts,
    Rows,
    beside,
    loop_flop_per_s,
    overlapped,
    stream_host_s,
    tensor_j_per_flop,
    throttled,
)
from dovetail.cost.lane_products import FLOP_ENERGY_RATIO, are_on_lanes, lane_product_s
from dovetail.cost.mapping.on_chips import array_products
from dovetail.cost.op_cost import Setting
from dovetail.cost.products import SPLITS, Products, unit_s
from dovetail.workload.graph import BoolArray, FloatArray, Phase
from dovetail.workload.operators import code_of, dtype_code

# 8-bit products scale and widen what they write after the main loop: passes of the output, HBM's pace (37 fp8 GEMMs).
SCALED_PASSES = 2.5
SCALED = (dtype_code("fp8"), dtype_code("int8"), dtype_code("fp4"))
# Experts of one grouped product share its tiles of rows; where one expert's rows end and the next one's begin within a
# tile, that tile is computed for both (Megablox; rows of a tile by default: MaxText, configs/types.py, tile_batch_seq).
GROUPED_TILE_ROWS = 512.0
_RECURRENT, _EXPERT = code_of("recurrent_linear"), code_of("expert_linear")


def product_costing(rows: Rows, *, fill_frac: FloatArray | float = 1.0, splits: tuple[int, ...] = SPLITS) -> Costing:
    """Tiles on the units, or a mapping on arrays, beside traffic from HBM.

    Products of an update run more than once, or every so many steps.
    """
    is_update = rows.phase == Phase.UPDATE
    if not bool(is_update.any()):
        return _costing_of_one(rows, fill_frac, splits)
    runs = np.where(is_update[:, None], rows.work_frac, 1.0)
    one = _costing_of_one(
        replace(rows, flop=rows.flop / runs, in_bytes=rows.in_bytes / runs, out_bytes=rows.out_bytes / runs),
        fill_frac,
        splits,
    )

    def parts(chips: ChipColumns, setting: Setting) -> RowCosts:
        found = one(chips, setting)
        return RowCosts(**{field.name: getattr(found, field.name) * runs for field in fields(RowCosts)})

    return parts


def _costing_of_one(rows: Rows, fill_frac: FloatArray | float, splits: tuple[int, ...]) -> Costing:
    """Of products that run once."""
    is_recurrent = (rows.kind == _RECURRENT)[:, None]
    is_stepwise = is_recurrent & (rows.phase != Phase.WEIGHT_GRAD)[:, None]
    num_steps = np.where(is_stepwise, rows.b, 1.0)  # steps of a recurrence wait for each other
    b = np.where(is_recurrent, 1.0, rows.b)
    k = np.where(is_recurrent & ~is_stepwise, rows.b * rows.k, rows.k)  # in its weight gradient they are one
    is_apart = ((rows.kind == _EXPERT) & ~rows.is_fused)[:, None]  # eager experts are products one after another
    num_kernels = np.where(is_apart, rows.b, num_steps)
    # fused layers queue one product per expert, on several streams at once (Transformer Engine, cublaslt_gemm.cu,
    # nvte_multi_tensor_gemm); a compiler's grouped product is one kernel
    is_queued = ((rows.kind == _EXPERT) & rows.is_fused & ~rows.is_compiled)[:, None]
    num_further = np.where(is_queued, rows.b - 1.0, 0.0)
    gradients = rows.is_backward[:, None].astype(np.float64)
    narrow = rows.operand_bytes / rows.element_bytes
    n = rows.n * rows.work_frac  # of weights side by side, those of which a second forward pass forms the product again

    m_grouped, k_grouped = _grouped_extents(rows, is_apart, k)
    are_short = _are_short(rows)

    def on_arrays(chips: ChipColumns, setting: Setting) -> RowCosts:
        found = array_products(
            b, m_grouped, n, k_grouped, operand_bytes=rows.operand_bytes, math=rows.math, chips=chips
        )
        on_chip_s = num_steps * found.on_chip_s
        moved_j = found.nearest_bytes * chips.vector_memory_j_per_byte + found.sram_bytes * chips.sram_j_per_byte
        converted_j = (
            found.conversion_s * chips.vector_flop_per_s * chips.vector_j_per_flop
        )  # lanes are all busy with it
        unit_j = rows.flop * tensor_j_per_flop(rows, chips) + num_steps * (moved_j + converted_j)
        if setting is not Setting.STREAM:
            on_chip_s, unit_j = throttled(on_chip_s, unit_j, chips)
        again_bytes = np.where(is_stepwise, _stepwise_bytes(rows, chips), found.reread_bytes)
        hbm_bytes = rows.in_bytes * narrow + rows.out_bytes + again_bytes
        timed = _on_arrays_s(rows, chips, on_chip_s, num_steps * found.conversion_s, hbm_bytes)
        return _row_costs(rows, chips, timed, hbm_bytes, unit_j, (num_kernels, num_further), gradients)

    def parts(chips: ChipColumns, setting: Setting) -> RowCosts:
        if chips.are_arrays:
            return on_arrays(chips, setting)
        shape = Products(
            b=b,
            m=rows.m,
            n=n,
            k=k,
            rate_flop_per_s=loop_flop_per_s(rows, chips) * rows.load_frac,
            element_bytes=rows.operand_bytes,
            fill_frac=fill_frac,
            splits=splits,
        )
        tensor_s, sram_bytes = (num_steps * column for column in unit_s(shape, chips))
        unit_j = rows.flop * tensor_j_per_flop(rows, chips) + sram_bytes * chips.sram_j_per_byte
        if setting is not Setting.STREAM:
            tensor_s, unit_j = throttled(tensor_s, unit_j, chips)
        on_lanes = are_on_lanes(rows.math, chips)
        if bool(on_lanes.any()):
            lanes_s, lanes_bytes = (num_steps * column for column in lane_product_s(shape, chips))
            lanes_j = rows.flop * FLOP_ENERGY_RATIO * chips.vector_j_per_flop + lanes_bytes * chips.sram_j_per_byte
            tensor_s, unit_j = np.where(on_lanes, lanes_s, tensor_s), np.where(on_lanes, lanes_j, unit_j)
        hbm_bytes = rows.in_bytes * narrow + rows.out_bytes + _reread_bytes(rows, chips, shape, is_stepwise)
        wide_s = tensor_s
        if bool(are_short.any()):  # at half of the rate, as wide products are
            halved = replace(shape, rate_flop_per_s=shape.rate_flop_per_s / 2)
            wide_s = np.maximum(num_steps * unit_s(halved, chips)[0], tensor_s)
        timed = _on_units_s(rows, chips, (tensor_s, wide_s), hbm_bytes, on_lanes)
        return _row_costs(rows, chips, timed, hbm_bytes, unit_j, (num_kernels, num_further), gradients)

    return parts


def _grouped_extents(rows: Rows, is_apart: BoolArray, k: FloatArray) -> tuple[FloatArray, FloatArray]:
    """m and k with the tiles that experts of a grouped product compute beside their own rows, on average.

    Their rows are the contraction where weight gradients are formed. One expert alone has no neighbour.
    """
    is_grouped = (rows.kind == _EXPERT)[:, None] & ~is_apart & (rows.b > 1)
    is_contracted = (rows.phase == Phase.WEIGHT_GRAD)[:, None]
    own = np.where(is_contracted, k, rows.m)
    more = np.where(is_grouped, np.minimum(GROUPED_TILE_ROWS, rows.b * own), 0.0)
    return rows.m + np.where(is_contracted, 0.0, more), k + np.where(is_contracted, more, 0.0)


def _on_arrays_s(
    rows: Rows, chips: ChipColumns, on_chip_s: FloatArray, conversion_s: FloatArray, hbm_bytes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Busy and clocked seconds: arrays and all memories side by side, as tiles are double-buffered, then what the lanes
    convert.
    """
    bandwidth = chips.hbm_bytes_per_s * chips.calibration["hbm_frac"]
    both_s, clocked_s = overlapped(on_chip_s, hbm_bytes / bandwidth)
    return both_s + conversion_s + _scaled_bytes(rows) / bandwidth, clocked_s + conversion_s


def _on_units_s(
    rows: Rows,
    chips: ChipColumns,
    unit: tuple[FloatArray, FloatArray],
    hbm_bytes: FloatArray,
    on_lanes: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Busy and clocked seconds: units and HBM side by side, and what of the traffic nothing hides.

    Of products on the lanes, other blocks of a core hide all of it. `unit` are seconds of the units, and those at half
    of the rate where that applies.
    """
    tensor_s, wide_s = unit
    bandwidth = chips.hbm_bytes_per_s * chips.calibration["hbm_frac"]
    serial_bytes = np.where(on_lanes, 0.0, _serial_bytes(rows, chips))
    hidden_s = (hbm_bytes - serial_bytes) / bandwidth
    both_s, clocked_s = beside(tensor_s, hidden_s)
    scaled_bytes = _scaled_bytes(rows)
    passing_s = both_s + np.maximum(serial_bytes, scaled_bytes) / bandwidth
    # Rows of one expert are a short contraction under a large weight: passes over its gradient, which were measured on
    # long ones, would cost more than the product itself. Partial sums are scaled within the main loop there, which
    # takes no longer than at half of the rate (DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2).
    within_s = beside(wide_s, hidden_s)[0] + serial_bytes / bandwidth
    return np.where(_are_short(rows)[:, None], np.minimum(passing_s, within_s), passing_s), clocked_s


def _are_short(rows: Rows) -> BoolArray:
    """Narrow products of experts."""
    return np.asarray(is_among(rows.math, SCALED) & (rows.kind == _EXPERT))


def _scaled_bytes(rows: Rows) -> FloatArray:
    """What 8-bit products move after their main loop."""
    return np.where(is_among(rows.math, SCALED)[:, None], SCALED_PASSES, 0.0) * rows.out_bytes


def _row_costs(
    rows: Rows,
    chips: ChipColumns,
    timed: tuple[FloatArray, FloatArray],
    hbm_bytes: FloatArray,
    unit_j: FloatArray,
    queued: tuple[FloatArray, FloatArray],  # kernels one after another, and further ones beside them
    gradients: FloatArray,
) -> RowCosts:
    (busy_s, clocked_s), (num_kernels, num_further) = timed, queued
    return RowCosts(
        busy_s=busy_s,
        clocked_s=clocked_s,
        num_kernels=num_kernels,
        hbm_bytes=hbm_bytes,
        core_j=unit_j + hbm_bytes * chips.sram_j_per_byte,
        flop=rows.flop,
        host_s=stream_host_s(rows, chips, num_kernels, gradients, num_further=num_further),
        floor_s=np.zeros(()),
    )


def _serial_bytes(rows: Rows, chips: ChipColumns) -> FloatArray:
    """Bytes that nothing hides: operands staged before the first product, results that the cores themselves write."""
    shown = np.where(chips.is_output_hidden, 0.0, 1.0)
    return np.asarray(np.minimum(rows.in_bytes, chips.staging_bytes) + shown * rows.out_bytes)


def _reread_bytes(rows: Rows, chips: ChipColumns, shape: Products, is_stepwise: BoolArray) -> FloatArray:
    """What is read again because the chip cannot hold it: blocks of operands, a recurrence's weights at every step."""
    held = np.sqrt(chips.sram_bytes / rows.operand_bytes)  # rows and columns of a block of results kept on chip
    least = shape.m * shape.k + shape.k * shape.n
    blocks = (shape.b * rows.operand_bytes) * np.maximum((2 * shape.m * shape.n * shape.k) / held - least, 0.0)
    again = np.where(np.minimum(shape.m, shape.n) > held, blocks, 0.0)
    if not bool(is_stepwise.any()):
        return again
    return np.where(is_stepwise, _stepwise_bytes(rows, chips), again)


def _stepwise_bytes(rows: Rows, chips: ChipColumns) -> FloatArray:
    """A recurrence's weights at every step but the first, where they do not fit on the chip."""
    weight_bytes = rows.n * rows.k * rows.element_bytes
    buffers_bytes = chips.num_units * (chips.array_buffer_bytes if chips.are_arrays else chips.core_buffer_bytes)
    on_chip_bytes = chips.sram_bytes + np.where(chips.has_vmem, chips.vector_memory_bytes, buffers_bytes)
    return np.where(weight_bytes > on_chip_bytes, (rows.b - 1) * weight_bytes, 0.0)
