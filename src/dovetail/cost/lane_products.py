"""Matrix products on the vector lanes of a GPU: fp32 without tensor cores, as cuBLAS's SGEMM kernels run it.

A block of threads holds a tile of results in registers; tiles run in waves over the cores. Batched products take the
largest tile whatever their extents, so heads of 64 fill half of it; single ones take a smaller tile where that leaves
fewer cores idle.
"""

from __future__ import annotations

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.products import Products
from dovetail.workload.graph import BoolArray, FloatArray, IntArray
from dovetail.workload.operators import dtype_code

# Fitted together on 1,177 batched and 1,040 single fp32 products of an A100 and a V100 (sitar-lab/NeuSight, torch 2.1):
# 5.1 and 3.6 %, 6.5 and 5.5 %; fitted on the A100 alone, the V100's are 3.6 and 6.2 % off, the other way 4.9 and 7.5 %.
# The share of peak in the main loop of the largest tile (`lanes_frac` of a chip's calibration) is from the same fit.
# Where lanes take an instruction of every scheduler each clock, loads and addresses take issue slots from them: 0.775
# of peak (80 single products of one H200, PyTorch 2.11).
FULL_ISSUE_LANES, FULL_ISSUE_RATIO = 128.0, 0.892
# Joules of a FLOP over those of a lane slot, which is a multiply-add of GELU on an H200: operands come from SRAM too.
# Estimate: an L4 holds 7 TFLOP/s of fp32 in BERT at its 72 W (one row of sitar-lab/NeuSight).
FLOP_ENERGY_RATIO = 1.3
FEED_EXTENT = 7.5  # a tile of r x c takes 1 + this * (1/r + 1/c - 1/64) of the time of the largest, work being equal
FILL_CLOCKS = 250.0  # start and end of the largest tile; others by the root of their area
LARGEST = (128, 128)  # sgemm_128x128 of cuBLAS and CUTLASS
SMALLER = ((128, 64), (64, 128), (64, 64))
STEP = 8.0  # of the contraction, that a block loads at once
SAME_RATE_RATIO = 1.05  # peaks of lanes and of fp32 are stated at clocks that differ by less
_FP32 = dtype_code("fp32")


def are_on_lanes(math: IntArray, chips: ChipColumns) -> BoolArray:
    """Which rows, on which chips, the vector lanes multiply: fp32 where a chip's rate of it is that of its lanes."""
    rate = chips.dtype_flop_per_s[_FP32]
    return np.asarray((math == _FP32)[:, None] & (rate <= SAME_RATE_RATIO * chips.vector_flop_per_s))


def lane_product_s(products: Products, chips: ChipColumns) -> tuple[FloatArray, FloatArray]:
    """Seconds of the lanes at full clock, by the best tile; and bytes from the shared SRAM."""
    is_batched = products.b > 1
    best_s, best_bytes = _tile_s(products, chips, *LARGEST)
    for tile_rows, tile_cols in SMALLER:
        time_s, sram_bytes = _tile_s(products, chips, tile_rows, tile_cols)
        is_better = ~is_batched & (time_s < best_s)
        best_bytes = np.where(is_better, sram_bytes, best_bytes)
        best_s = np.where(is_better, time_s, best_s)
    return best_s, best_bytes


def _tile_s(products: Products, chips: ChipColumns, tile_rows: int, tile_cols: int) -> tuple[FloatArray, FloatArray]:
    largest_rows, largest_cols = LARGEST
    num_tiles = products.b * np.ceil(products.m / tile_rows) * np.ceil(products.n / tile_cols)
    steps = np.ceil(products.k / STEP) * STEP
    is_full = chips.num_lanes / chips.num_units >= FULL_ISSUE_LANES
    loop_frac = chips.calibration["lanes_frac"] * np.where(is_full, FULL_ISSUE_RATIO, 1.0)
    core_flop_per_s = loop_frac * chips.dtype_flop_per_s[_FP32] / chips.num_units
    largest_feed = 1 / largest_rows + 1 / largest_cols
    slower = 1 + FEED_EXTENT * (1 / tile_rows + 1 / tile_cols - largest_feed)
    fill_s = FILL_CLOCKS / chips.clock_hz * (tile_rows * tile_cols / (largest_rows * largest_cols)) ** 0.5
    tile_s = 2.0 * tile_rows * tile_cols * steps * slower / core_flop_per_s + fill_s
    sram_bytes = num_tiles * (tile_rows + tile_cols) * products.k * products.element_bytes
    return np.asarray(np.ceil(num_tiles / chips.num_units) * tile_s), np.asarray(sram_bytes)
