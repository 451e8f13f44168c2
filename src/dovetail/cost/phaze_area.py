"""The 22 nm area model of PHAZE, exact for its 29,360 chips: multipliers, lanes and SRAM, and nothing else.

An exact linear decomposition of the areas in its released code (MIT, commit fed7cde): Accelergy with CACTI for SRAM and
tables scaled from 45 nm for multipliers. It has no network, PHY, control or I/O, and its register files are about a
thousand times too small, so it ranks template chips and says nothing of dies.
"""

from __future__ import annotations

import numpy as np

from dovetail.cost.node import Amount
from dovetail.errors import NotModelled
from dovetail.units import KIBI, MEBI, MICRO
from dovetail.workload.graph import FloatArray

ELEMENT_MM2 = 760.041386 * MICRO  # one multiplier with 32 bytes of registers
LANE_MM2 = 759.823853 * MICRO  # one vector lane with 12 bytes of registers
ELEMENTS_PER_KIBI = 64  # a core buffer has one KiB for as many multipliers or lanes, and at least one
_CORE_UM2 = (6133.98, 8248.43, 12610.5, 22139.9, 38583.0, 63338.4, 115579.0, 204764.0, 446565.0, 897890.0, 1634130.0)
_SHARED_UM2 = (3338220.0, 6078640.0, 11952400.0, 23745200.0, 46750900.0, 88605700.0, 175423000.0)
CORE_MM2: FloatArray = np.array(_CORE_UM2) * MICRO  # core buffers of 1 KiB, 2 KiB ... 1 MiB
SHARED_MM2: FloatArray = np.array(_SHARED_UM2) * MICRO  # global buffers of 2 MiB, 4 MiB ... 128 MiB


def phaze_mm2(
    *,
    num_tensor_units: Amount,
    num_rows: Amount,
    num_cols: Amount,
    num_vector_units: Amount,
    num_lanes: Amount,
    sram_bytes: Amount,
) -> FloatArray:
    """Area of each chip; every argument a number or an array of them.

    Buffers between two sizes of the tables follow a straight line through both in logarithms; outside, not modelled.
    """
    elements, lanes = np.asarray(num_rows) * num_cols, np.asarray(num_lanes)
    tensor_mm2 = ELEMENT_MM2 * elements + _core_buffer_mm2(elements)
    vector_mm2 = LANE_MM2 * lanes + _core_buffer_mm2(lanes)
    shared_mm2 = _table_mm2(np.asarray(sram_bytes), 2 * MEBI, SHARED_MM2, "global buffer")
    total_mm2: FloatArray = num_tensor_units * tensor_mm2 + num_vector_units * vector_mm2 + shared_mm2
    return total_mm2


def _core_buffer_mm2(num_elements: FloatArray) -> FloatArray:
    return _table_mm2(np.maximum(1.0, num_elements / ELEMENTS_PER_KIBI) * KIBI, KIBI, CORE_MM2, "core buffer")


def _table_mm2(buffer_bytes: FloatArray, smallest_bytes: float, table_mm2: FloatArray, what: str) -> FloatArray:
    place = np.log2(np.asarray(buffer_bytes) / smallest_bytes)
    last = len(table_mm2) - 1
    if np.any(place < 0) or np.any(place > last):
        raise NotModelled(
            f"PHAZE's area model has a {what} of {smallest_bytes / KIBI:g} to {smallest_bytes * 2**last / KIBI:g} KiB; "
            f"got {np.min(buffer_bytes) / KIBI:g} to {np.max(buffer_bytes) / KIBI:g} KiB"
        )
    below = np.floor(place).astype(np.int64)
    is_whole = place == below
    lower_mm2, upper_mm2 = table_mm2[below], table_mm2[np.minimum(below + 1, last)]
    return np.where(is_whole, lower_mm2, lower_mm2 * (upper_mm2 / lower_mm2) ** (place - below))
