"""Traffic into one shared memory level: the least bytes that tiles which fit it let a product move.

Three loop orders, after which tile stays in the level while the rest streams past it. Streams and tiles that are
replaced are double-buffered, so that transfers overlap with what is below. No candidate's bytes depend on the capacity,
which only decides what fits: a larger memory never moves more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.mapping.remembered import remembered
from dovetail.cost.mapping.tables import ProductShapes
from dovetail.workload.graph import FloatArray, IntArray

HELD = ("results", "weights", "inputs")
SLAB = 128.0  # steps of what streams past a tile, at once in the level
PARTIAL_BYTES = 4.0  # partial sums are fp32
FINE_COUNTS = 16  # tile counts are tried one by one up to this, then in steps of an eighth
COUNT_STEP = 1.125


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTiles:
    """Products by capacity_bytes: bytes moved into and out of the level, and the tiles that move them."""

    moved_bytes: FloatArray
    held: IntArray  # places in HELD
    tile_m: FloatArray
    tile_n: FloatArray
    tile_k: FloatArray
    needed_bytes: FloatArray  # of the capacity


def tile_counts(largest: float) -> FloatArray:
    """Into how many tiles an extent may be cut: fixed counts, so that a longer extent never has a better choice."""
    counts = [float(count) for count in range(1, FINE_COUNTS + 1)]
    while counts[-1] < largest:
        counts.append(float(np.ceil(counts[-1] * COUNT_STEP)))
    return np.array(counts)


@remembered
def level_tiles(shapes: ProductShapes, capacity_bytes: FloatArray) -> LevelTiles:
    """Every product at every capacity: the loop order and tiles of least traffic."""
    s = shapes
    whole = float(max(s.m.max(), s.n.max(), s.k.max()))
    counts = tile_counts(whole)
    best: LevelTiles | None = None
    for place, held in enumerate(HELD):
        found = _held_tiles(place, held, s, counts, capacity_bytes[None, :, None])
        best = found if best is None else _lesser(best, found)
    assert best is not None
    assert np.isfinite(best.moved_bytes).all(), (s, capacity_bytes)
    return best


def _held_tiles(place: int, held: str, s: ProductShapes, counts: FloatArray, capacity_bytes: FloatArray) -> LevelTiles:
    """Of one loop order: one extent of the tile cut by each count, the other as large as fits."""
    m, n, k = (column[:, None, None] for column in (s.m, s.n, s.k))
    size, result = s.operand_bytes[:, None, None], s.result_bytes[:, None, None]
    if held == "results":
        cut, other, streamed = m, n, k
    elif held == "weights":
        cut, other, streamed = k, n, m
    else:
        cut, other, streamed = k, m, n
    num_cut = np.minimum(counts[None, None, :], cut)
    tile_cut = np.ceil(cut / num_cut)
    slab = np.minimum(streamed, SLAB)
    if held == "results":  # results accumulate in place; slabs of both operands stream
        per_other, fixed = PARTIAL_BYTES * tile_cut + 2 * size * slab, 2 * size * slab * tile_cut
        all_needed = PARTIAL_BYTES * cut * other + 2 * size * slab * (cut + other)
    else:  # an operand stays; rows of the other and of partial results stream
        per_other = 2 * size * tile_cut + 2 * PARTIAL_BYTES * slab
        fixed = 2 * slab * size * tile_cut
        all_needed = size * cut * other + 2 * slab * (size * cut + PARTIAL_BYTES * other)
    fits_whole = (num_cut == 1) & (all_needed <= capacity_bytes)
    tile_other = np.minimum(np.floor((capacity_bytes - fixed) / per_other), other)
    tile_other = np.where(fits_whole, other, tile_other)
    fits = tile_other >= 1
    num_other = np.ceil(other / np.maximum(tile_other, 1.0))
    inputs, weights, results = (s.m * s.k / s.input_reuse)[:, None, None], k * n, m * n
    if held == "results":
        operands, written = inputs * num_other + weights * num_cut, result * results
    else:
        kept, passing = (weights, inputs) if held == "weights" else (inputs, weights)
        operands = kept + passing * num_other
        written = results * (result + 2 * PARTIAL_BYTES * (num_cut - 1))
    moved_bytes = np.where(fits, s.b[:, None, None] * (size * operands + written), np.inf)
    needed = np.where(fits_whole, all_needed, per_other * tile_other + fixed)
    # least bytes, then least capacity
    at = np.lexsort((np.where(fits, needed, np.inf), moved_bytes), axis=2)[..., :1]

    def taken(table: FloatArray) -> FloatArray:
        return np.take_along_axis(np.broadcast_to(table, moved_bytes.shape), at, axis=2)[..., 0]

    cut_tile, other_tile, slab_tile = (taken(np.asarray(table)) for table in (tile_cut, tile_other, slab))
    tiles = {"results": (cut_tile, other_tile, slab_tile), "weights": (slab_tile, other_tile, cut_tile)}
    tile_m, tile_n, tile_k = tiles.get(held, (other_tile, slab_tile, cut_tile))
    return LevelTiles(
        moved_bytes=taken(moved_bytes),
        held=np.full(moved_bytes.shape[:2], place),
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=tile_k,
        needed_bytes=taken(needed),
    )


def _lesser(one: LevelTiles, other: LevelTiles) -> LevelTiles:
    is_other = other.moved_bytes < one.moved_bytes
    return LevelTiles(
        **{f.name: np.where(is_other, getattr(other, f.name), getattr(one, f.name)) for f in fields(LevelTiles)}
    )
