"""The least-time mapping of products onto array chips: every level tabulated once for what it depends on, then joined.

The core level depends on (shape, arrays, their buffer and its feed), a memory level on (shape, capacity). Tables of
operators and chips repeat these sub-tuples over and over, so each is mapped once and looked up for every pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.mapping.core_level import CORE_MAPPINGS, CoreMapping, CoreTiles, core_kinds, core_tiles
from dovetail.cost.mapping.memory_level import HELD, LevelTiles, level_tiles
from dovetail.cost.mapping.tables import ArrayChips, Fill, ProductShapes, WindowMapping, distinct_rows
from dovetail.workload.graph import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTile:
    """What one shared memory level holds, for one product on one chip."""

    held: str
    tile: tuple[float, float, float]  # m, n, k
    needed_bytes: float
    moved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """One product on one chip: tile and dataflow of a core, and the tile of each memory from the arrays outwards."""

    core: CoreMapping
    core_tile: tuple[float, float]  # p x q of what the core holds
    core_needed_bytes: float
    num_items: float
    num_splits: float
    num_busy_arrays: float
    cycles: float
    memories: tuple[MemoryTile, ...]
    time_s: float
    utilization_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTable:
    """Products by chips: distinct mappings of each level, and which of them each row and each column has."""

    shapes: ProductShapes
    chips: ArrayChips
    core: CoreTiles
    levels: tuple[LevelTiles, ...]  # of chips.memories
    shape_of: IntArray  # of an operator: row of the tables
    kind_of: IntArray  # of a chip: column of the core's table
    column_of: tuple[IntArray, ...]  # of a chip: column of each level's table

    def core_s(self) -> FloatArray:
        """Of the arrays alone, with fill and drain."""
        return self._spread(self.core.cycles, self.kind_of) / self.chips.clock_hz

    def moved_bytes(self) -> tuple[FloatArray, ...]:
        """Traffic of each memory with what is below it, from the arrays outwards; HBM last."""
        outer = [self._spread(tiles.moved_bytes, of) for tiles, of in zip(self.levels, self.column_of, strict=True)]
        return self._spread(self.core.moved_bytes, self.kind_of), *outer

    def level_s(self) -> tuple[FloatArray, ...]:
        """Seconds that the traffic of each memory takes; HBM last."""
        rates = [memory.bytes_per_s for memory in self.chips.memories] + [self.chips.hbm_bytes_per_s]
        return tuple(moved / rate for moved, rate in zip(self.moved_bytes(), rates, strict=True))

    def time_s(self) -> FloatArray:
        """The longest of arrays and levels, which run side by side."""
        return self._bound_s([*(memory.bytes_per_s for memory in self.chips.memories[1:]), self.chips.hbm_bytes_per_s])

    def on_chip_s(self) -> FloatArray:
        """As `time_s`, HBM left out."""
        return self._bound_s([memory.bytes_per_s for memory in self.chips.memories[1:]])

    def _bound_s(self, bytes_per_s: list[FloatArray]) -> FloatArray:
        """The longer of the cores and of the first of the levels above them, of such bandwidths."""
        bound_s = self._spread(self.core.bound_cycles, self.kind_of)
        bound_s /= self.chips.clock_hz
        for tiles, of, rate in zip(self.levels, self.column_of, bytes_per_s, strict=False):
            level_s = self._spread(tiles.moved_bytes, of)
            level_s /= rate
            np.maximum(bound_s, level_s, out=bound_s)
        return bound_s

    def energy_j(self) -> tuple[FloatArray, ...]:
        """Of multiply-accumulates, then of the traffic of each memory, HBM last; they add up."""
        prices_j = [memory.access_j_per_byte for memory in self.chips.memories] + [self.chips.hbm_j_per_byte]
        moved_j = (moved * price_j for moved, price_j in zip(self.moved_bytes(), prices_j, strict=True))
        return self.shapes.macs[:, None] * self.chips.mac_j, *moved_j

    def roofline_s(self) -> FloatArray:
        """No mapping is done sooner: all multipliers busy, every element moved once at every level."""
        s, chips = self.shapes, self.chips
        once = s.b * (s.operand_bytes * (s.m * s.k / s.input_reuse + s.k * s.n) + s.result_bytes * s.m * s.n)
        rate = np.minimum.reduce([chips.hbm_bytes_per_s, *(memory.bytes_per_s for memory in chips.memories)])
        return np.asarray(np.maximum(s.macs[:, None] / chips.macs_per_s, once[:, None] / rate))

    def mapped(self, operator: int, chip: int) -> Mapped:
        """One pair in words and numbers."""
        row, kind = self.shape_of[operator], self.kind_of[chip]
        core = self.core
        cycles = float(core.cycles[row, kind])
        memories = tuple(
            MemoryTile(
                held=HELD[tiles.held[row, of[chip]]],
                tile=(
                    float(tiles.tile_m[row, of[chip]]),
                    float(tiles.tile_n[row, of[chip]]),
                    float(tiles.tile_k[row, of[chip]]),
                ),
                needed_bytes=float(tiles.needed_bytes[row, of[chip]]),
                moved_bytes=float(tiles.moved_bytes[row, of[chip]]),
            )
            for tiles, of in zip(self.levels, self.column_of, strict=True)
        )
        time_s = float(self._pair_s(operator, chip))
        return Mapped(
            core=CORE_MAPPINGS[core.mapping[row, kind]],
            core_tile=(float(core.tile_p[row, kind]), float(core.tile_q[row, kind])),
            core_needed_bytes=float(core.needed_bytes[row, kind]),
            num_items=float(core.num_items[row, kind]),
            num_splits=float(core.num_splits[row, kind]),
            num_busy_arrays=float(core.num_busy[row, kind]),
            cycles=cycles,
            memories=memories,
            time_s=time_s,
            utilization_frac=float(self.shapes.macs[operator] / (self.chips.macs_per_s[chip] * time_s)),
        )

    def _pair_s(self, operator: int, chip: int) -> float:
        row = self.shape_of[operator]
        outer = [tiles.moved_bytes[row, of[chip]] for tiles, of in zip(self.levels, self.column_of, strict=True)]
        rates = [memory.bytes_per_s[chip] for memory in self.chips.memories[1:]] + [self.chips.hbm_bytes_per_s[chip]]
        core_s = self.core.bound_cycles[row, self.kind_of[chip]] / self.chips.clock_hz[chip]
        return float(max(core_s, *(moved / rate for moved, rate in zip(outer, rates, strict=True))))

    def _spread(self, table: FloatArray, of_chip: IntArray) -> FloatArray:
        return np.take(table[self.shape_of], of_chip, axis=1)


def mapped_table(
    shapes: ProductShapes,
    chips: ArrayChips,
    *,
    fill: Fill = Fill.ONCE,
    window: WindowMapping = WindowMapping.UNROLLED,
) -> MappedTable:
    """Every product on every chip by its least-time mapping."""
    columns = (shapes.b, shapes.m, shapes.n, shapes.k, shapes.operand_bytes, shapes.result_bytes, shapes.window)
    first, shape_of = distinct_rows(*columns, shapes.input_reuse)
    own = shapes.rows(first)
    kinds, kind_of = core_kinds(chips)
    levels, column_of = [], []
    for memory in chips.memories:
        of_first, of_chip = distinct_rows(memory.capacity_bytes)
        levels.append(level_tiles(own, memory.capacity_bytes[of_first]))
        column_of.append(of_chip)
    return MappedTable(
        shapes=shapes,
        chips=chips,
        core=core_tiles(own, kinds, fill, window),
        levels=tuple(levels),
        shape_of=shape_of,
        kind_of=kind_of,
        column_of=tuple(column_of),
    )
