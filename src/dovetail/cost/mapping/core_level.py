"""The arrays and their buffers: the mapping of least cycles and traffic for every product on every kind of array.

A work item is what one array does with one tile in its buffer. Five mappings say which tile that is and which dataflow
the array runs on it; what is stationary in the PEs lies in their registers. Candidates are tiles of fixed sizes (an
array's width times powers of two) and extents cut into a few equal tiles, so neither capacity nor bandwidth nor the
number of arrays changes what a candidate costs other than for the better: the laws of the tests are theorems.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from dovetail.cost.mapping.memory_level import PARTIAL_BYTES
from dovetail.cost.mapping.remembered import remembered_columns
from dovetail.cost.mapping.tables import ArrayChips, Dataflow, Fill, ProductShapes, WindowMapping, distinct_rows
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

SPLITS = (1.0, 2.0, 4.0, 8.0, 16.0)  # parts of what streams, while work items are fewer than arrays
NESTED_FRAC = 0.25  # of the memory above the cores that their tiles may take: what is left holds its own tiles
BELOW = (-3, -1)  # tiles narrower than an array, in powers of two: for buffers too small for its width
COUNTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0)  # equal tiles that an extent is cut into
COARSE = 3  # tiles within so many doublings of an extent are left to COUNTS, which has all of up to 2^3
CHUNK = 1 << 16  # tiles looked at together: few columns of them stay in the cache of one core
PAIRS = 1 << 15  # of a tile and what feeds it, costed at once: a dozen columns of them stay there

_OS, _WS, _IS = Dataflow.OUTPUT_STATIONARY, Dataflow.WEIGHT_STATIONARY, Dataflow.INPUT_STATIONARY


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMapping:
    """Which tile a buffer holds (p x q of `held`), and the dataflow of the array that works on it."""

    held: str
    dataflow: Dataflow


CORE_MAPPINGS = (
    CoreMapping(held="results", dataflow=_WS),
    CoreMapping(held="results", dataflow=_OS),
    CoreMapping(held="results", dataflow=_IS),
    CoreMapping(held="weights", dataflow=_WS),
    CoreMapping(held="inputs", dataflow=_IS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreKinds:
    """Distinct arrays with what feeds them: all that the core level depends on."""

    num_arrays: FloatArray
    num_rows: FloatArray
    num_cols: FloatArray
    load_cycles: FloatArray  # to load a stationary tile into the PEs
    buffer_bytes: FloatArray
    bytes_per_cycle: FloatArray  # of the memory above, to all arrays
    nested_bytes: FloatArray  # of that memory that tiles in work may take
    dataflows: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTiles:
    """Products by kinds of arrays: cycles, traffic with the memory above, and the mapping that gives them."""

    cycles: FloatArray  # of the arrays
    bound_cycles: FloatArray  # the longer of those and of the traffic
    moved_bytes: FloatArray
    mapping: IntArray  # places in CORE_MAPPINGS
    tile_p: FloatArray
    tile_q: FloatArray
    num_splits: FloatArray
    num_items: FloatArray
    num_busy: FloatArray  # arrays that work at once
    needed_bytes: FloatArray  # of each buffer


def core_kinds(chips: ArrayChips) -> tuple[CoreKinds, IntArray]:
    """The distinct kinds of arrays among chips, and which of them each chip has.

    A memory that can hold the tiles of all buffers is as good as a larger one, so its size is cut to that.
    """
    nearest = chips.memories[0]
    bytes_per_cycle = nearest.bytes_per_s / chips.clock_hz
    nested_bytes = np.minimum(nearest.capacity_bytes * NESTED_FRAC, chips.num_arrays * chips.core_buffer_bytes)
    load_cycles = np.ceil(chips.num_rows / chips.num_loaded_rows)
    columns = (
        chips.num_arrays, chips.num_rows, chips.num_cols, load_cycles, chips.core_buffer_bytes, bytes_per_cycle,
        nested_bytes,
    )  # fmt: skip
    first, of_chip = distinct_rows(*columns, *chips.dataflows.T)
    kinds = CoreKinds(
        num_arrays=chips.num_arrays[first],
        num_rows=chips.num_rows[first],
        num_cols=chips.num_cols[first],
        load_cycles=load_cycles[first],
        buffer_bytes=chips.core_buffer_bytes[first],
        bytes_per_cycle=bytes_per_cycle[first],
        nested_bytes=nested_bytes[first],
        dataflows=chips.dataflows[first],
    )
    return kinds, of_chip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bases:
    """A product, an array of one geometry and its buffer in each row: what candidates depend on."""

    b: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray  # in time: of one position of the window
    window: FloatArray  # positions that run in time
    element_bytes: FloatArray  # of an operand
    result_bytes: FloatArray
    rows: FloatArray
    cols: FloatArray
    load: FloatArray
    buffer_bytes: FloatArray

    def taken(self, rows: IntArray) -> _Bases:
        return _Bases(**{one.name: getattr(self, one.name)[rows] for one in fields(_Bases)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Feeds:
    """How many arrays there are of a base, and what feeds them: what chooses among candidates."""

    base: IntArray
    arrays: FloatArray
    bytes_per_cycle: FloatArray
    nested_bytes: FloatArray

    def taken(self, rows: IntArray) -> _Feeds:
        return _Feeds(**{one.name: getattr(self, one.name)[rows] for one in fields(_Feeds)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tiles:
    """Tiles that fit the buffers of some bases, base after base: what each is, makes, takes and moves."""

    base: IntArray
    p: FloatArray
    q: FloatArray
    num_p: FloatArray
    num_q: FloatArray
    needed_bytes: FloatArray
    num_items: FloatArray  # without splits

    def taken(self, rows: IntArray | BoolArray) -> _Tiles:
        return _Tiles(**{one.name: getattr(self, one.name)[rows] for one in fields(_Tiles)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costed:
    """Tiles by one split, with the cycles of an item and what all of them move."""

    tiles: _Tiles
    split: float
    work_cycles: FloatArray
    moved_bytes: FloatArray

    def taken(self, rows: IntArray | BoolArray) -> _Costed:
        work, moved = self.work_cycles[rows], self.moved_bytes[rows]
        return replace(self, tiles=self.tiles.taken(rows), work_cycles=work, moved_bytes=moved)


@remembered_columns
def core_tiles(shapes: ProductShapes, kinds: CoreKinds, fill: Fill, window: WindowMapping) -> CoreTiles:
    """Every product on every kind of array: the mapping that is done first, and of those the one of least traffic."""
    num_shapes, num_kinds = len(shapes), len(kinds.num_arrays)
    bases, feeds = _bases_and_feeds(shapes, kinds, window)
    best = {one.name: np.zeros(num_shapes * num_kinds) for one in fields(CoreTiles)}
    best["bound_cycles"] = np.full(num_shapes * num_kinds, np.inf)
    for place, mapping in enumerate(CORE_MAPPINGS):
        is_allowed = np.tile(kinds.dataflows[:, list(Dataflow).index(mapping.dataflow)], num_shapes)
        allowed = np.flatnonzero(is_allowed)
        rows = allowed[np.argsort(feeds.base[allowed], kind="stable")]
        num_rows = np.bincount(feeds.base[rows], minlength=len(bases.b))
        first_row = np.cumsum(num_rows) - num_rows
        for own in _chunks(mapping, bases, np.flatnonzero(num_rows)):
            here = rows[_ranges(first_row[own], num_rows[own])]
            feed = replace(feeds.taken(here), base=np.repeat(np.arange(len(own)), num_rows[own]))
            for at, found in _least(mapping, bases.taken(own), feed, fill):
                _improve(best, here[at], place, found)
    assert np.isfinite(best["bound_cycles"]).all(), "a tile of one element fits every buffer"
    tables = {name: column.reshape(num_shapes, num_kinds) for name, column in best.items()}
    mapping_of = tables.pop("mapping").astype(np.int64)
    return CoreTiles(mapping=mapping_of, **tables)


def _bases_and_feeds(shapes: ProductShapes, kinds: CoreKinds, window: WindowMapping) -> tuple[_Bases, _Feeds]:
    """Products by geometries and buffers, and products by kinds of arrays with the base of each."""
    num_shapes = len(shapes)
    in_time = shapes.window if window is WindowMapping.IN_TIME else np.ones(num_shapes)
    first, geometry_of = distinct_rows(kinds.num_rows, kinds.num_cols, kinds.load_cycles, kinds.buffer_bytes)

    def shaped(column: FloatArray) -> FloatArray:
        return np.repeat(column, len(first))

    def of_kind(column: FloatArray) -> FloatArray:
        return np.tile(column, num_shapes)

    bases = _Bases(
        b=shaped(shapes.b), m=shaped(shapes.m), n=shaped(shapes.n), k=shaped(shapes.k / in_time),
        window=shaped(in_time), element_bytes=shaped(shapes.operand_bytes), result_bytes=shaped(shapes.result_bytes),
        rows=of_kind(kinds.num_rows[first]), cols=of_kind(kinds.num_cols[first]),
        load=of_kind(kinds.load_cycles[first]), buffer_bytes=of_kind(kinds.buffer_bytes[first]),
    )  # fmt: skip
    feeds = _Feeds(
        base=(np.arange(num_shapes)[:, None] * len(first) + geometry_of).reshape(-1),
        arrays=of_kind(kinds.num_arrays),
        bytes_per_cycle=of_kind(kinds.bytes_per_cycle),
        nested_bytes=of_kind(kinds.nested_bytes),
    )
    return bases, feeds


def _ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Whole numbers from each start on, as many as its count, one range after another."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(starts - before, counts))


def _improve(best: dict[str, FloatArray], rows: IntArray, place: int, found: dict[str, FloatArray]) -> None:
    """Takes over what is done sooner, or as soon with less traffic."""
    bound, moved = best["bound_cycles"][rows], best["moved_bytes"][rows]
    is_better = _is_better(found, {"bound_cycles": bound, "moved_bytes": moved})
    better = rows[is_better]
    for name, column in found.items():
        best[name][better] = column[is_better]
    best["mapping"][better] = place


def _is_better(one: dict[str, FloatArray], other: dict[str, FloatArray]) -> BoolArray:
    is_equal = one["bound_cycles"] == other["bound_cycles"]
    is_less = is_equal & (one["moved_bytes"] < other["moved_bytes"])
    return np.asarray((one["bound_cycles"] < other["bound_cycles"]) | (is_less & np.isfinite(one["bound_cycles"])))


def _extents(mapping: CoreMapping, x: _Bases) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The extents that the tile p x q is cut from, and the width in PEs that each is laid over."""
    if mapping.held == "results":
        by_dataflow = {_WS: (x.load, x.cols), _OS: (x.rows, x.cols), _IS: (x.cols, x.load)}
        return x.m, x.n, *by_dataflow[mapping.dataflow]
    return x.k, x.n if mapping.held == "weights" else x.m, x.rows, x.cols


def _doublings(extent: FloatArray, unit: FloatArray) -> FloatArray:
    return np.maximum(np.ceil(np.log2(extent / unit)), 0.0)


def _chunks(mapping: CoreMapping, bases: _Bases, used: IntArray) -> Iterator[IntArray]:
    """Bases whose grids of tiles are about equally long, few enough to stay in a cache.

    A base in a chunk of longer grids gets tiles that are no better than the equal parts it has, which come first.
    """
    if not len(used):
        return
    of_p, of_q, unit_p, unit_q = (column[used] for column in _extents(mapping, bases))
    num_p, num_q = (
        np.maximum(_doublings(extent, unit) - COARSE, 0).astype(np.int64) + len(BELOW) + len(COUNTS) + 1
        for extent, unit in ((of_p, unit_p), (of_q, unit_q))
    )
    code = num_p * 64 + num_q
    order = np.argsort(code, kind="stable")
    edges = np.flatnonzero(np.diff(code[order], prepend=-1, append=-1)).tolist()
    begin, longest = 0, (0, 0)
    for start, end in pairwise(edges):
        base = order[start]
        longer = max(longest[0], int(num_p[base])), max(longest[1], int(num_q[base]))
        if start > begin and (end - begin) * longer[0] * longer[1] > CHUNK:
            yield from _parts(used[order[begin:start]], longest)
            begin, longer = start, (int(num_p[base]), int(num_q[base]))
        longest = longer
    yield from _parts(used[order[begin:]], longest)


def _parts(bases: IntArray, longest: tuple[int, int]) -> Iterator[IntArray]:
    step = max(1, CHUNK // (longest[0] * longest[1]))
    for at in range(0, len(bases), step):
        yield bases[at : at + step]


def _tried(extent: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tile sizes tried along one extent, rows by sizes, and how many tiles each makes."""
    last = int(_doublings(extent, unit).max())
    powers = np.exp2(np.array([*BELOW, *range(last - COARSE)], dtype=np.float64))
    fixed = np.minimum(np.ceil(unit[:, None] * powers), extent[:, None])
    counts = np.minimum(np.array(COUNTS), extent[:, None])
    one = np.ones((len(extent), 1))
    tiles = np.concatenate([np.ceil(extent[:, None] / counts), fixed, one], axis=1)
    return tiles, np.concatenate([counts, np.ceil(extent[:, None] / fixed), extent[:, None]], axis=1)


def _least(
    mapping: CoreMapping, x: _Bases, feed: _Feeds, fill: Fill
) -> Iterator[tuple[IntArray, dict[str, FloatArray]]]:
    """The best tile of one mapping for rows of `feed`, by each split: done first, and of those the least traffic."""
    has_room = feed.nested_bytes >= feed.arrays * x.buffer_bytes[feed.base]  # for the tiles of all arrays at once
    most_arrays = np.zeros(len(x.b))
    np.maximum.at(most_arrays, feed.base, feed.arrays)
    edge = _fill_cycles(mapping, x)[:, 0]
    tiles = _fitting(mapping, x)
    room, tight = np.flatnonzero(has_room), np.flatnonzero(~has_room)
    for split in SPLITS:
        if split > 1:
            tiles = tiles.taken(tiles.num_items * (split / 2) < most_arrays[tiles.base])
        if not len(tiles.base):
            return
        costed = _costed(mapping, x, tiles, split, fill)
        for rows, is_tight in ((room, False), (tight, True)):
            if len(rows):
                own = _undominated(costed, is_tight=is_tight)
                yield from _chosen(own, feed, rows, edge if fill is Fill.ONCE else np.zeros(len(edge)), is_tight)


def _fitting(mapping: CoreMapping, x: _Bases) -> _Tiles:
    """The tiles of each base that its buffer holds; what they cost is still open."""
    of_p, of_q, unit_p, unit_q = _extents(mapping, x)
    (p, num_p), (q, num_q) = _tried(of_p, unit_p), _tried(of_q, unit_q)
    needed = _needed_bytes(mapping, x, p[:, :, None], q[:, None, :])
    base, at_p, at_q = np.nonzero(needed <= x.buffer_bytes[:, None, None])
    num_p, num_q = num_p[base, at_p], num_q[base, at_q]
    num_products = x.b if mapping.held == "results" else x.b * x.window
    return _Tiles(
        base=base,
        p=p[base, at_p],
        q=q[base, at_q],
        num_p=num_p,
        num_q=num_q,
        needed_bytes=needed[base, at_p, at_q],
        num_items=num_products[base] * num_p * num_q,
    )


def _costed(mapping: CoreMapping, x: _Bases, tiles: _Tiles, split: float, fill: Fill) -> _Costed:
    own = x.taken(tiles.base)
    edge = _fill_cycles(mapping, own)
    passes, stream = _passes(mapping, own, tiles.p[:, None], tiles.q[:, None], split)
    stream = stream + edge if fill is Fill.PER_PASS else stream
    work = passes * stream + (edge if fill is Fill.PER_ITEM else 0.0)
    moved = _moved_bytes(mapping, own, tiles.num_p[:, None], tiles.num_q[:, None], split)
    return _Costed(tiles=tiles, split=split, work_cycles=work[:, 0], moved_bytes=moved[:, 0])


def _undominated(costed: _Costed, *, is_tight: bool) -> _Costed:
    """Without tiles that are no better on any chip than one of their base: of least traffic, and of least work.

    Where memory is tight, a tile that takes less of it keeps more arrays busy. Of equal tiles the first stays.
    """
    for of_work in (False, True):
        tiles, work, moved = costed.tiles, costed.work_cycles, costed.moved_bytes
        starts = np.flatnonzero(np.diff(tiles.base, prepend=-1))
        counts = np.diff(starts, append=len(work))
        best = np.repeat(_first_least(tiles.num_items * work if of_work else moved, starts, counts), counts)
        is_less = moved[best] < moved
        is_worse = (is_less | (moved[best] == moved) & (best < np.arange(len(best)))) & (work[best] <= work)
        is_worse &= tiles.num_items[best] <= tiles.num_items
        if is_tight:
            is_worse &= tiles.needed_bytes[best] <= tiles.needed_bytes
        costed = costed.taken(~is_worse)
    return costed


def _chosen(
    costed: _Costed, feed: _Feeds, rows: IntArray, edge: FloatArray, is_tight: bool
) -> Iterator[tuple[IntArray, dict[str, FloatArray]]]:
    """The best of the tiles for each of `rows`; nothing for those that have none."""
    num_bases = len(edge)
    num_tiles = np.bincount(costed.tiles.base, minlength=num_bases)
    first_tile = np.cumsum(num_tiles) - num_tiles
    rows = rows[num_tiles[feed.base[rows]] > 0]
    if not len(rows):
        return
    part_of = np.cumsum(num_tiles[feed.base[rows]]) // PAIRS
    for part in np.split(rows, np.flatnonzero(np.diff(part_of)) + 1):
        base = feed.base[part]
        counts = num_tiles[base]
        yield part, _best_pairs(costed, feed.taken(part), edge, _ranges(first_tile[base], counts), counts, is_tight)


def _best_pairs(
    costed: _Costed, feed: _Feeds, edge: FloatArray, tile: IntArray, counts: IntArray, is_tight: bool
) -> dict[str, FloatArray]:
    """Pairs of a row of `feed` and a tile, row after row: the best pair of each row."""
    tiles, split = costed.tiles, costed.split
    starts = np.cumsum(counts) - counts
    items, moved = tiles.num_items[tile], costed.moved_bytes[tile]
    busy = arrays = np.repeat(feed.arrays, counts)
    is_out = items * (split / 2) >= arrays if split > 1 else np.zeros(len(items), dtype=np.bool_)
    if is_tight:
        room = np.floor(np.repeat(feed.nested_bytes, counts) / tiles.needed_bytes[tile])
        busy = np.minimum(arrays, np.maximum(room, 1.0))
        is_out |= room < 1
    cycles = np.ceil(split * items / busy)
    cycles *= costed.work_cycles[tile]
    cycles += np.repeat(edge[feed.base], counts)
    bound = moved / np.repeat(feed.bytes_per_cycle, counts)
    np.maximum(bound, cycles, out=bound)
    bound[is_out] = np.inf
    least = np.minimum.reduceat(bound, starts)
    moved[bound != np.repeat(least, counts)] = np.inf
    pair = _first_least(moved, starts, counts)
    chosen = tile[pair]
    num_items = split * tiles.num_items[chosen]
    return {
        "cycles": cycles[pair],
        "bound_cycles": least,
        "moved_bytes": costed.moved_bytes[chosen],
        "tile_p": tiles.p[chosen],
        "tile_q": tiles.q[chosen],
        "num_splits": np.full(len(least), split),
        "num_items": num_items,
        "num_busy": np.minimum(busy[pair], num_items),
        "needed_bytes": tiles.needed_bytes[chosen],
    }


def _first_least(values: FloatArray, starts: IntArray, counts: IntArray) -> IntArray:
    """Of each run of values, where its least stands first."""
    least = np.flatnonzero(values == np.repeat(np.minimum.reduceat(values, starts), counts))
    return least[np.searchsorted(least, starts)]


def _needed_bytes(mapping: CoreMapping, x: _Bases, p: FloatArray, q: FloatArray) -> FloatArray:
    """Bytes of one core's buffer: tiles and streams double-buffered, results of a tile as fp32 accumulators."""
    dims = (slice(None), *(None,) * (p.ndim - 1))
    size, rows, cols, load = x.element_bytes[dims], x.rows[dims], x.cols[dims], x.load[dims]
    deep = np.minimum(rows, x.k[dims])
    if mapping.held != "results":
        streams = size * p + PARTIAL_BYTES * q
        return np.asarray(np.where((p <= rows) & (q <= cols), 2 * streams, 2 * size * p * q + 2 * load * streams))
    accumulators = 2 * PARTIAL_BYTES * p * q
    if mapping.dataflow is _WS:
        return np.asarray(2 * size * p * deep + accumulators)
    if mapping.dataflow is _IS:
        return np.asarray(2 * size * q * deep + accumulators)
    streams = 2 * size * (p + q)
    return np.asarray(np.where((p <= rows) & (q <= cols), streams, streams * deep + accumulators))


def _passes(
    mapping: CoreMapping, x: _Bases, p: FloatArray, q: FloatArray, split: float
) -> tuple[FloatArray, FloatArray]:
    """Passes of an array over its work item, and the cycles that stream in each.

    A stationary tile is loaded behind the pass before it, so a pass takes at least as long as loading.
    """
    rows, cols, load = x.rows[:, None], x.cols[:, None], x.load[:, None]
    if mapping.held != "results":
        streamed = np.ceil((x.m if mapping.held == "weights" else x.n) / split)[:, None]
        in_registers = (p <= rows) & (q <= cols)
        turns = np.where(in_registers, 1.0, np.ceil(p / rows) * np.ceil(q / cols) * np.ceil(streamed / load))
        return turns, np.where(in_registers, np.maximum(streamed, load), load)
    deep = np.ceil(np.ceil(x.k / x.rows) * x.window / split)[:, None]
    if mapping.dataflow is _WS:
        return deep * np.ceil(q / cols), np.maximum(p, load)
    if mapping.dataflow is _IS:
        return deep * np.ceil(p / cols), np.maximum(q, load)
    in_registers = (p <= rows) & (q <= cols)
    whole = np.maximum(np.ceil(x.k * x.window / split), x.load)[:, None]
    slab = np.maximum(np.minimum(x.rows, x.k), x.load)[:, None]
    turns = np.where(in_registers, 1.0, np.ceil(p / rows) * np.ceil(q / cols) * deep)
    return turns, np.where(in_registers, whole, slab)


def _moved_bytes(mapping: CoreMapping, x: _Bases, num_p: FloatArray, num_q: FloatArray, split: float) -> FloatArray:
    """Bytes between the memory above and all cores, from how often each tile is used again."""
    k = x.k * x.window
    inputs, weights, results = (
        (x.element_bytes * x.m * k)[:, None],
        (x.element_bytes * k * x.n)[:, None],
        (x.m * x.n)[:, None],
    )
    b, result = x.b[:, None], x.result_bytes[:, None]
    if mapping.held == "results":
        partial_bytes = 2 * PARTIAL_BYTES * split if split > 1 else 0.0
        return np.asarray(b * (inputs * num_q + weights * num_p + results * (result + partial_bytes)))
    kept, passing = (weights, inputs) if mapping.held == "weights" else (inputs, weights)
    num_sums = num_p * x.window[:, None]
    written = results * (result + 2 * PARTIAL_BYTES * (num_sums - 1))
    return np.asarray(b * (kept * split + passing * num_q + written))


def _fill_cycles(mapping: CoreMapping, x: _Bases) -> FloatArray:
    """To fill and drain an array; a stationary operand is loaded row by row first (Samajdar et al., ISPASS 2020)."""
    loaded = x.rows if mapping.dataflow is _OS else 2 * x.rows
    return np.asarray(loaded + x.cols - 2)[:, None]
