"""Matrix products on the tiled units of GPUs: tiles, waves, the contraction in groups of steps, and split contractions.

A unit holds a tile of results while the contraction streams past it (`hardware.chip.Tiling`); tiles run in waves over
the units; a wave takes as long as its slowest member. Shapes are arrays of one column (an operator a row), chips arrays
of one row, and everything broadcasts. Systolic arrays are mapped instead (`cost.mapping`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.workload.graph import FloatArray

SPLITS = (1, 2, 4, 8, 16)  # parts that a streamed extent may be cut in when there are few tiles
MIN_STEPS = 4  # groups of steps left to each part of a split contraction: fewer do not pay for their sum
PARTIAL_BYTES = 4.0  # partial sums are fp32


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Shapes of products: `b` of C[m,n] = A[m,k] B[k,n] at `rate_flop_per_s`, operands of `element_bytes`."""

    b: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray
    rate_flop_per_s: FloatArray  # of the whole chip, as sustained in the main loop
    element_bytes: FloatArray
    fill_frac: FloatArray | float = 1.0  # of a tile's start and end, what shows
    splits: tuple[int, ...] = SPLITS


def unit_s(products: Products, chips: ChipColumns) -> tuple[FloatArray, FloatArray]:
    """Seconds the tensor units take at full clock, by the best tile and split; and bytes from the shared SRAM.

    The bytes are those of the tile that needs fewest, whichever is fastest: units that run neighbouring tiles at the
    same time take what a larger tile would, in clusters that share a copy, and libraries prefer larger tiles up to 10 %
    slower (29 of 31 products of one H200, `cost/chosen.py`). So a product's energy does not hang on its tile, and no
    tile that is faster at full clock lowers the clock.
    """
    best_s, least_bytes = (np.full((), np.inf) for _ in range(2))
    for tile_rows, tile_cols in zip(chips.tile_rows, chips.tile_cols, strict=True):
        tiled = tiled_product(products, chips, tile_rows, tile_cols)
        best_s = np.minimum(_tile_s(tiled, products, chips), best_s)
        least_bytes = np.minimum(tiled.num_tiles * tiled.tile_bytes * products.k, least_bytes)
    return best_s, least_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """A product cut into tiles of results, before it is split and dealt over units."""

    num_tiles: FloatArray
    num_groups: FloatArray  # of steps that stream past a tile
    tile_bytes: FloatArray  # operands of one step
    fill_s: FloatArray
    least_s: FloatArray  # of one group of steps, the SRAM not in the way


def tiled_product(products: Products, chips: ChipColumns, tile_rows: FloatArray, tile_cols: FloatArray) -> Tiled:
    calibration = chips.calibration
    math_s = 2.0 * tile_rows * tile_cols * chips.num_steps * chips.num_units / products.rate_flop_per_s
    return Tiled(
        num_tiles=products.b * np.ceil(products.m / tile_rows) * np.ceil(products.n / tile_cols),
        num_groups=np.ceil(products.k / chips.num_steps),
        tile_bytes=(tile_rows + tile_cols) * products.element_bytes / calibration["sram_reuse"],
        fill_s=calibration["fill_s"] * products.fill_frac,
        least_s=np.maximum(math_s, calibration["tile_step_s"]),
    )


def _tile_s(tiled: Tiled, products: Products, chips: ChipColumns) -> FloatArray:
    """Seconds with one tile, by the best split of the contraction, whose parts meet in the SRAM to be added up."""
    fill_s, least_s = tiled.fill_s, tiled.least_s
    load_s = tiled.tile_bytes * chips.num_steps / chips.sram_bytes_per_s  # of one unit's operands, a group of steps
    best_s = _waves_s(tiled.num_tiles, tiled.num_groups, fill_s, least_s, load_s, chips)
    partial_s = partial_sums_s(products, chips)
    for split in products.splits[1:]:
        groups = np.ceil(tiled.num_groups / split)
        time_s = _waves_s(split * tiled.num_tiles, groups, fill_s, least_s, load_s, chips)
        time_s = time_s + chips.calibration["split_s"] + split * partial_s
        time_s = np.where(groups >= MIN_STEPS, time_s, np.inf)
        best_s = np.minimum(time_s, best_s)
    return best_s


def _waves_s(
    pieces: FloatArray,
    groups: FloatArray,
    fill_s: FloatArray,
    least_s: FloatArray,
    load_s: FloatArray,
    chips: ChipColumns,
) -> FloatArray:
    """Waves of pieces over the units; the SRAM feeds those that work, so many in each wave."""
    waves = np.ceil(pieces / chips.num_units)
    waves_s = np.maximum(pieces * load_s, waves * least_s)
    waves_s *= groups
    waves_s += waves * fill_s
    return waves_s


def partial_sums_s(products: Products, chips: ChipColumns) -> FloatArray:
    """Seconds that the partial sums of one part of a split contraction take through the shared SRAM, there and back."""
    partial_bytes = 2.0 * PARTIAL_BYTES * products.b * products.m * products.n
    return np.asarray(partial_bytes / (chips.sram_bytes_per_s * chips.calibration["sram_reuse"]))
