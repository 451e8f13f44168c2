"""Products of operators on chips with arrays: the mapper between a graph's rows and a table of chips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.mapping.mapper import MappedTable, mapped_table
from dovetail.cost.mapping.tables import (
    LEAST_CORE_BYTES,
    LEAST_MEMORY_BYTES,
    ArrayChips,
    Fill,
    MemoryLevels,
    ProductShapes,
    distinct_rows,
    product_shapes,
)
from dovetail.cost.mapping.vector_work import ConvertedOperands, conversion_s
from dovetail.workload.graph import FloatArray, IntArray

FILLS = {"hidden": Fill.ONCE, "load": Fill.PER_ITEM, "whole": Fill.PER_PASS}
MAX_ELEMENT_BYTES = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayProducts:
    """Products by chips, each by its least-time mapping; arrays and on-chip memories run side by side."""

    on_chip_s: FloatArray  # the longest of arrays and on-chip memories, at full clock
    conversion_s: FloatArray  # of the vector lanes, after that
    nearest_bytes: FloatArray  # between the arrays and the memory that feeds them
    sram_bytes: FloatArray  # between vector memory and the shared SRAM; nothing where there is no vector memory
    reread_bytes: FloatArray  # of HBM, beyond every element once


def array_products(
    b: FloatArray,
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    *,
    operand_bytes: FloatArray,
    math: IntArray,
    chips: ChipColumns,
) -> ArrayProducts:
    """Products of extents (rows, 1) that are computed in dtypes `math`; those of one rate are mapped together."""
    found = ArrayProducts(**{name: np.zeros((len(math), len(chips))) for name in ArrayProducts.__dataclass_fields__})
    columns = [np.maximum(np.ceil(np.broadcast_to(one, b.shape)[:, 0]), 1.0) for one in (m, n, k, b)]
    sizes = np.minimum(np.broadcast_to(operand_bytes, b.shape)[:, 0], MAX_ELEMENT_BYTES)
    for dtype in np.unique(math).tolist():
        own = np.flatnonzero(math == dtype)
        shapes = product_shapes(
            *(column[own] for column in columns[:3]),
            b=columns[3][own],
            operand_bytes=sizes[own],
            result_bytes=np.minimum(np.maximum(sizes[own], 2.0), MAX_ELEMENT_BYTES),
        )
        part = _mapped(shapes, chips, dtype)
        for name in ArrayProducts.__dataclass_fields__:
            getattr(found, name)[own] = getattr(part, name)
    return found


def _mapped(shapes: ProductShapes, chips: ChipColumns, dtype: int) -> ArrayProducts:
    arrays = arrays_of(chips, chips.rate_flop_per_s(dtype) * chips.calibration["tensor_frac"])
    table = mapped_table(shapes, arrays, fill=FILLS[chips.fill])
    nearest_bytes, sram_bytes, hbm_bytes = table.moved_bytes()
    once_bytes = shapes.b * (
        shapes.operand_bytes * (shapes.m * shapes.k + shapes.k * shapes.n) + shapes.result_bytes * shapes.m * shapes.n
    )
    return ArrayProducts(
        on_chip_s=table.on_chip_s(),
        conversion_s=_conversions_s(table, chips, dtype),
        nearest_bytes=nearest_bytes,
        sram_bytes=np.where(chips.has_vmem, sram_bytes, 0.0),
        reread_bytes=np.maximum(hbm_bytes - once_bytes[:, None], 0.0),
    )


def arrays_of(chips: ChipColumns, rate_flop_per_s: FloatArray) -> ArrayChips:
    """The arrays, at the clock at which they reach a rate, and the memories between them and HBM."""
    num_macs = chips.num_units * chips.tile_rows[0] * chips.tile_cols[0]
    nearest = MemoryLevels(
        capacity_bytes=np.maximum(chips.vector_memory_bytes, LEAST_MEMORY_BYTES),
        bytes_per_s=chips.vector_memory_bytes_per_s,
        access_j_per_byte=chips.vector_memory_j_per_byte,
    )
    shared = MemoryLevels(
        capacity_bytes=np.maximum(chips.sram_bytes, LEAST_MEMORY_BYTES),
        bytes_per_s=np.where(chips.has_vmem, chips.sram_bytes_per_s, np.inf),
        access_j_per_byte=np.where(chips.has_vmem, chips.sram_j_per_byte, 0.0),
    )
    return ArrayChips(
        num_arrays=chips.num_units,
        num_rows=chips.tile_rows[0],
        num_cols=chips.tile_cols[0],
        clock_hz=rate_flop_per_s / (2 * num_macs),
        core_buffer_bytes=np.maximum(chips.array_buffer_bytes, LEAST_CORE_BYTES),
        num_loaded_rows=chips.num_loaded_rows,
        dataflows=chips.dataflows.T,
        memories=(nearest, shared),
        hbm_bytes_per_s=chips.hbm_bytes_per_s * chips.calibration["hbm_frac"],
        hbm_j_per_byte=chips.hbm_j_per_byte,
        mac_j=2 * chips.tensor_j_per_flop,
    )


def _conversions_s(table: MappedTable, chips: ChipColumns, dtype: int) -> FloatArray:
    """Seconds in which the lanes convert operands and results, on chips that have no arrays for the dtype."""
    converted_s = np.zeros((len(table.shapes), len(chips)))
    calibration = chips.calibration
    which = np.flatnonzero(chips.is_converted[dtype])
    if not len(which):
        return converted_s
    names = ("conversion_slots", "conversion_result_slots", "visits_ratio")
    kinds = [*(calibration[name][which] for name in names), chips.tile_cols[0][which], chips.vector_memory_bytes[which]]
    first, kind_of = distinct_rows(*kinds)
    for kind, at in enumerate(which[first].tolist()):
        constants = ConvertedOperands(
            visit_slots=float(calibration["conversion_slots"][at]),
            result_slots=float(calibration["conversion_result_slots"][at]),
            visits_ratio=float(calibration["visits_ratio"][at]),
            least_tile=float(chips.tile_cols[0][at]),
        )
        own = which[kind_of == kind]
        slots_per_s = chips.vector_flop_per_s[own] / 2  # a lane does a multiply and an add per clock
        memory_bytes = float(chips.vector_memory_bytes[at])
        converted_s[:, own] = conversion_s(table.shapes, memory_bytes, slots_per_s, constants)
    return converted_s
