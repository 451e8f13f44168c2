"""Products on the units that something else leaves: the tile chosen for the whole chip, the clusters that still fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.rows import loop_flop_per_s, rows_of
from dovetail.cost.products import MIN_STEPS, SPLITS, Products, Tiled, partial_sums_s, tiled_product
from dovetail.hardware.chip import Tiling
from dovetail.units import GIGA
from dovetail.workload.graph import BoolArray, FloatArray, Ops, V
from dovetail.workload.operators import code_of

# Rows and columns that a library has for clusters beside the chip's own tiles: cuBLAS's names of 33 kernels, H200.
CLUSTER_TILES = ((128, 320), (192, 192), (128, 192), (96, 256), (96, 192), (512, 64), (32, 128), (16, 64))
UNIT_BYTES_PER_S = 118 * GIGA  # one unit takes in at most: a streaming block of 512 or 1024 threads alone on an H200
LARGER_FRAC = 0.1  # a library takes a larger tile up to so much slower than the best: so for 29 of 31 products, H200
PLACES_PER_LATE = 3  # units free in the last wave, for each that came too late, from which on those run in it (H200)
NUM_SHORT_WAVES = 2  # of short kernels, on the whole chip
# Units that a kernel of windowed convolutions is launched for, of all: 120 of an H200's 132, 15 clusters of 8.
WINDOWED_FRAC = 120 / 132

_CONVOLUTION = code_of("convolution")


def num_clusters(num_units: int, num_held: int, tiling: Tiling) -> int:
    """Clusters that fit beside held units spread over the groups.

    The first held units break a cluster each, in a group each; once every group holds some, a group's remainder is
    on average half of what a cluster lacks by one unit. Measured on an H200 with pairs: 66, 65, 64, 62, 62, 54, 54,
    46, 39, 32 and 16 pairs beside 0, 1, 2, 4, 8, 16, 24, 32, 48, 64 and 96 held SMs.
    """
    lacking = tiling.num_cluster_units - 1
    broken = min(num_held * lacking, tiling.num_groups * lacking / 2)
    return max(int((num_units - num_held - broken) // tiling.num_cluster_units), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """Products as pieces that run in waves; an entry a product."""

    pieces: FloatArray
    wave_s: FloatArray
    sum_s: FloatArray  # of what partial sums take after the last wave
    launched_frac: FloatArray  # of the chip's units that the kernel wants
    is_dealt: BoolArray  # pieces are dealt out beforehand, not fetched: all of a late unit's run late

    def time_s(self, num_units: int, num_left: int, bytes_s: FloatArray) -> FloatArray:
        """Seconds on `num_left` units, where HBM takes `bytes_s`.

        HBM streams beneath the waves that the whole chip has; waves beyond these are of a few pieces and wait for
        their units alone.
        """
        first = num_waves(self.pieces, num_units, num_units)
        fetched = num_waves(self.pieces, num_left, num_units) - first
        num_launched = np.minimum(self.pieces, np.floor(self.launched_frac * num_units))
        more = np.where(self.is_dealt, first * (np.ceil(num_launched / num_left) - 1), fetched)
        return np.asarray(np.hypot(first * self.wave_s + self.sum_s, bytes_s) + more * self.wave_s)


def num_waves(pieces: FloatArray, num_left: int, num_units: int) -> FloatArray:
    """Waves of `pieces` on `num_left` units, where the kernel was launched for all of them.

    Kernels of more pieces than units stay and fetch pieces, but the first piece of each is its own: units that find no
    room keep theirs until others leave, which is when nothing is left to fetch: a wave more. Where more come late than
    can run at once, the late ones fill waves like any other. Short kernels, whose pieces are all fetched at once, let
    late ones in where many leave early, and do not fill their last wave to the last place.
    """
    late = np.where(pieces > num_units, float(num_units - num_left), 0.0)
    is_short = (pieces <= NUM_SHORT_WAVES * num_units) & (late > 0)
    early = pieces - np.where(late < num_left, late, 0.0)
    waves = np.where(is_short, np.floor(early / num_left) + 1, np.ceil(early / num_left))
    is_placed = (waves <= NUM_SHORT_WAVES) & (waves * num_left - early >= PLACES_PER_LATE * late)
    return np.asarray(waves + ((early < pieces) & ~is_placed))


def chosen_waves(ops: Ops, whole: ChipColumns, sram_bytes_per_s: float, is_clustered: bool) -> tuple[Waves, Waves]:
    """Pieces and waves with the tile and split that a library takes for the whole chip: alone, and beside others.

    It is the largest tile, in the fewest pieces, that is about as fast as the best. `sram_bytes_per_s` is what others
    leave to the operands.
    """
    left = replace(whole, sram_bytes_per_s=np.array([sram_bytes_per_s]))
    areas, (alone_s, pieces, *times_s) = _tried(ops, whole, left, is_clustered)
    is_near = alone_s <= (1 + LARGER_FRAC) * alone_s.min(axis=0)
    largest = np.where(is_near, areas, 0.0).max(axis=0)
    best = np.where(is_near & (areas == largest), pieces, np.inf).argmin(axis=0)
    taken = (best, np.arange(len(ops)))
    is_dealt = ops.kind == _CONVOLUTION
    launched_frac = np.where(is_dealt & (ops.extents[:, V] > 1), WINDOWED_FRAC, 1.0)
    first, then = (
        Waves(
            pieces=pieces[taken],
            wave_s=wave_s[taken],
            sum_s=sum_s[taken],
            launched_frac=launched_frac,
            is_dealt=is_dealt,
        )
        for wave_s, sum_s in (times_s[:2], times_s[2:])
    )
    return first, then


def _tried(ops: Ops, whole: ChipColumns, left: ChipColumns, is_clustered: bool) -> tuple[FloatArray, list[FloatArray]]:
    """Areas of all tiles and splits, and what `_cuts` says of them: a row a try, a column a product."""
    rows = rows_of(ops)
    shape = Products(
        b=rows.b,
        m=rows.m,
        n=rows.n,
        k=rows.k,
        rate_flop_per_s=loop_flop_per_s(rows, whole),
        element_bytes=rows.element_bytes,
    )
    tried = [
        (tile[0] * tile[1], cut) for tile in _tiles(whole, is_clustered) for cut in _cuts(shape, whole, left, tile)
    ]
    areas = np.array([area for area, _ in tried])[:, None]
    return areas, [np.stack(column) for column in zip(*(cut for _, cut in tried), strict=True)]


def _tiles(whole: ChipColumns, is_clustered: bool) -> list[tuple[float, float]]:
    own = [(float(rows[0]), float(cols[0])) for rows, cols in zip(whole.tile_rows, whole.tile_cols, strict=True)]
    return own + [(float(rows), float(cols)) for rows, cols in CLUSTER_TILES if is_clustered]


def _cuts(
    shape: Products, whole: ChipColumns, left: ChipColumns, tile: tuple[float, float]
) -> Iterator[tuple[FloatArray, ...]]:
    """For each split: seconds on the whole chip, pieces, then seconds of a wave and of the sum, alone and beside.

    Contractions are split only where whole tiles leave units idle.
    """
    tiled = tiled_product(shape, whole, np.array([tile[0]]), np.array([tile[1]]))
    is_idle = tiled.num_tiles < whole.num_units
    for split in SPLITS if bool(is_idle.any()) else SPLITS[:1]:
        pieces = split * tiled.num_tiles
        times_s = [_wave_and_sum_s(tiled, shape, chips, split) for chips in (whole, left)]
        alone_s = times_s[0][0] * np.ceil(pieces / whole.num_units) + times_s[0][1]
        if split > 1:
            alone_s = np.where(is_idle, alone_s, np.inf)
        yield tuple(column[:, 0] for column in (alone_s, pieces, *times_s[0], *times_s[1]))


def _wave_and_sum_s(tiled: Tiled, shape: Products, chips: ChipColumns, split: int) -> tuple[FloatArray, FloatArray]:
    pieces, groups = split * tiled.num_tiles, np.ceil(tiled.num_groups / split)
    per_byte = np.maximum(np.minimum(pieces, chips.num_units) / chips.sram_bytes_per_s, 1 / UNIT_BYTES_PER_S)
    wave_s = np.maximum(tiled.least_s, tiled.tile_bytes * chips.num_steps * per_byte) * groups + tiled.fill_s
    if split == 1:
        return wave_s, np.zeros_like(pieces)
    added_s = chips.calibration["split_s"] + split * partial_sums_s(shape, chips)
    return wave_s, np.asarray(np.where(groups >= MIN_STEPS, added_s, np.inf))
