"""Products on the units that something else leaves: the tile chosen for the whole chip, the clusters that still fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.parts import loop_flop_per_s, rows_of
from dovetail.cost.products import MIN_STEPS, SPLITS, Products, Tiled, partial_sums_s, tiled_product
from dovetail.hardware.chip import Tiling
from dovetail.workload.graph import FloatArray, Ops


def num_clusters(num_units: int, num_held: int, tiling: Tiling) -> int:
    """Clusters that fit beside held units spread over the groups.

    The first held units break a cluster each, in a group each; once every group holds some, a group's remainder is
    on average half of what a cluster lacks by one unit. Measured on an H200 with pairs: 66, 65, 64, 62, 62, 54, 54,
    46, 39, 32 and 16 pairs beside 0, 1, 2, 4, 8, 16, 24, 32, 48, 64 and 96 held SMs.
    """
    lacking = tiling.num_cluster_units - 1
    broken = min(num_held * lacking, tiling.num_groups * lacking / 2)
    return max(int((num_units - num_held - broken) // tiling.num_cluster_units), 0)


def chosen_unit_s(
    ops: Ops, whole: ChipColumns, left: ChipColumns, num_units: int, num_left: int
) -> tuple[FloatArray, FloatArray]:
    """Seconds of the tensor units alone and on `num_left` of them, with the tile and split best on the whole chip.

    `left` has a column a row with the SRAM's bandwidth that is left to it, and all units.
    """
    rows = rows_of(ops)
    shape = Products(
        b=rows.b,
        m=rows.m,
        n=rows.n,
        k=rows.k,
        rate_flop_per_s=loop_flop_per_s(rows, whole),
        element_bytes=rows.element_bytes,
    )
    sram = left.sram_bytes_per_s[:, None]
    best_s, held_s = np.full((len(ops), 1), np.inf), np.full((len(ops), 1), np.inf)
    for held in whole.stationary:
        for tile_rows, tile_cols in zip(whole.tile_rows, whole.tile_cols, strict=True):
            tiled = tiled_product(held, shape, whole, tile_rows, tile_cols)
            for split in SPLITS:
                alone_s = _piece_s(tiled, shape, whole, split, float(num_units), whole.sram_bytes_per_s)
                beside_s = _piece_s(tiled, shape, whole, split, float(num_left), sram)
                is_better = alone_s < best_s
                best_s, held_s = np.where(is_better, alone_s, best_s), np.where(is_better, beside_s, held_s)
    return best_s[:, 0], np.maximum(held_s, best_s)[:, 0]


def _piece_s(
    tiled: Tiled, products: Products, chips: ChipColumns, split: int, at_once: float, sram_bytes_per_s: FloatArray
) -> FloatArray:
    """Seconds with one tile and one split where `at_once` units take pieces."""
    calibration = chips.calibration
    pieces = split * tiled.num_tiles
    groups = np.ceil(tiled.num_groups / split)
    load_s = np.minimum(pieces, at_once) * tiled.tile_bytes * chips.num_steps / sram_bytes_per_s
    step_s = np.maximum(tiled.least_s, load_s)
    time_s = (step_s * groups + tiled.fill_s) * _waves(pieces, at_once, chips.num_units)
    if tiled.held != "output" or split == 1:
        return np.asarray(time_s)
    slower = replace(chips, sram_bytes_per_s=sram_bytes_per_s)
    time_s = time_s + calibration["split_s"] + split * partial_sums_s(products, slower)
    return np.where(groups >= MIN_STEPS, time_s, np.inf)


def _waves(pieces: FloatArray, at_once: float, num_units: FloatArray) -> FloatArray:
    """Waves of `pieces` where the kernel was launched for all units.

    Kernels of more pieces than units stay and fetch pieces, but the first piece of each is its own: units that find no
    room keep theirs until the others have done all the rest.
    """
    late = np.where(pieces > num_units, num_units - at_once, 0.0)
    return np.asarray(np.ceil((pieces - late) / at_once) + np.ceil(late / at_once))
