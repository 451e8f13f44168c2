"""What other simulators of arrays count, in their own rules: named modes beside the mapper's own.

SCALE-Sim is the mapper with one fixed dataflow, fill and drain for every pass and no limit of memory. ZigZag has rules
of its own: one weight-stationary array whose SRAM feeds a row of words per clock, weights loaded behind compute, and
convolutions whose rows hold input channels only.
"""

from __future__ import annotations

import numpy as np

from dovetail.cost.mapping.mapper import mapped_table
from dovetail.cost.mapping.tables import Dataflow, Fill, ProductShapes, array_chips, distinct_rows
from dovetail.units import BITS_PER_BYTE, GIBI, PICO, TERA
from dovetail.workload.graph import FloatArray

# Energies that the recorded runs of ZigZag were given (dse_peer_runs.csv, its column `notes`).
ZIGZAG_MAC_J = 0.38 * PICO
ZIGZAG_SRAM_J_PER_BYTE = 0.08 * PICO * BITS_PER_BYTE
ZIGZAG_DRAM_J_PER_BYTE = 3.9 * PICO * BITS_PER_BYTE
ZIGZAG_PARTIAL_BYTES = 4.0  # its 32-bit accumulators; the same note
_NO_LIMIT = GIBI * TERA  # style: bytes, and bytes/s: more than any product moves


def scale_sim_cycles(
    shapes: ProductShapes, num_rows: FloatArray, num_cols: FloatArray, dataflow: Dataflow
) -> FloatArray:
    """Cycles of each product on an array of its own, as SCALE-Sim 3 counts them, through the mapper.

    A stationary tile is loaded within the fill, so no pass waits for it; SCALE-Sim counts its first cycle as zero.
    """
    first, of_row = distinct_rows(num_rows, num_cols)
    chips = array_chips(
        len(first),
        levels=((_NO_LIMIT, _NO_LIMIT),),
        dataflows=(dataflow,),
        num_loaded_rows=num_rows[first],
        num_arrays=1.0,
        num_rows=num_rows[first],
        num_cols=num_cols[first],
        clock_hz=1.0,
        core_buffer_bytes=_NO_LIMIT,
        hbm_bytes_per_s=_NO_LIMIT,
    )
    table = mapped_table(shapes, chips, fill=Fill.PER_PASS)
    return np.asarray(table.core_s()[np.arange(len(shapes)), of_row] - 1)  # at 1 Hz


def zigzag_cycles(shapes: ProductShapes, width: FloatArray, dram_bytes_per_cycle: FloatArray) -> FloatArray:
    """Cycles of ZigZag 3.9 (LOMA, latency first) on one array of width x width, 16 MiB of SRAM.

    tiles x max(m, load) beside every element once from DRAM, and the first load; where compute is longer, the inputs
    before it and the last tile of results after it show too. Load: a tile of weights, `width` words per clock.
    """
    s = shapes
    channels = s.k / s.window
    num_tiles = s.b * s.window * np.ceil(channels / width) * np.ceil(s.n / width)
    load = np.minimum(channels, width) * np.minimum(s.n, width) / width
    compute = num_tiles * np.maximum(s.m, load)
    inputs = s.operand_bytes * s.m * s.k / s.input_reuse
    dram = s.b * (inputs + s.operand_bytes * (s.k * s.n + s.m * s.n)) / dram_bytes_per_cycle
    shown = (inputs + s.operand_bytes * s.m * np.minimum(s.n, width)) / dram_bytes_per_cycle
    return np.maximum(compute, dram) + load + np.where(compute >= dram, shown, 0.0)


def zigzag_energy_j(shapes: ProductShapes, width: FloatArray) -> FloatArray:
    """Energy by the same rules: every element once from DRAM; SRAM by the reuse at the array's edge.

    Inputs are written to the SRAM once and read for each tile of columns, weights written and read once, partial sums
    read and written for each tile of rows.
    """
    s = shapes
    num_rows = s.window * np.ceil(s.k / s.window / width)
    inputs, weights = s.operand_bytes * s.m * s.k, s.operand_bytes * s.k * s.n
    dram_bytes = inputs / s.input_reuse + weights + s.operand_bytes * s.m * s.n
    sums_bytes = ZIGZAG_PARTIAL_BYTES * s.m * s.n * (2 * num_rows - 1)
    sram_bytes = inputs / s.input_reuse + inputs * np.ceil(s.n / width) + 2 * weights + sums_bytes
    return s.macs * ZIGZAG_MAC_J + s.b * (dram_bytes * ZIGZAG_DRAM_J_PER_BYTE + sram_bytes * ZIGZAG_SRAM_J_PER_BYTE)
