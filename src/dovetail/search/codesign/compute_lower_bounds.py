"""What a microbatch computes at least on each of millions of systems: products and the rest apart, each looked up.

A product depends on the tensor cores, the memories and the clock; everything else on the vector cores, the memories and
the clock. So two tables of thousands of rows stand for all their combinations. Attention waits for lanes too, and what
feeds the arrays may be vector memory, of which each vector core adds some: where a table with vector cores would be too
large, products are costed with the most lanes and vector cores of the space, which only makes them faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.costs import cost_table, equally_costed_rows
from dovetail.cost.own_costs import refuse_own_costs
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import has_local_sram, has_own_buffers, own_buffer_bytes
from dovetail.search.codesign.affine_lower_bounds import PLACES, places_of_blocks
from dovetail.search.codesign.systems import BY_SIZE, NO_VMEM, built_systems, system_of
from dovetail.search.planners.bounds.step_lower_bounds import ROUNDING_TOLERANCE
from dovetail.search.space import Space
from dovetail.step.chip_free_costs import ChipFreeCosts
from dovetail.units import KIBI
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray, Ops, Phase
from dovetail.workload.operators import Unit

AROUND = ("sram_mib", "sram_bytes_per_clock", "hbm_stacks", "clock_mhz")
BESIDE_LANES = ("register_bytes_per_lane", "vmem_mib", "vmem_bytes_per_clock")  # what both engines wait for
TENSOR = ("num_tensor", "num_rows", "num_cols", "dataflow", "core_buffer_kib", *BESIDE_LANES, *AROUND)
VECTOR = ("num_vector", "num_lanes", *BESIDE_LANES, *AROUND)
BESIDE = ("num_vector", "num_lanes")  # of a product: as many as fit in a table are distinguished
TABLE_CHIPS = 20_000  # of a table of products by number of vector cores; some seconds
CHIP_BATCH = 2000
SORTED_CHIPS = 4 * CHIP_BATCH  # put in the order of their arrays; their costs take some ten MB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Seconds by combinations of some knobs, the last turning fastest, as far as they were worked out."""

    values: dict[str, FloatArray]  # of each knob
    fixed: dict[str, float]  # of all other knobs
    ops: Ops
    weights: FloatArray  # places and cuts by operators
    known_s: FloatArray  # places and cuts by combinations
    is_known: BoolArray

    def systems(self, codes: IntArray) -> dict[str, FloatArray]:
        """Combinations as values of all knobs."""
        places = np.unravel_index(codes, [len(one) for one in self.values.values()])
        own = {name: one[place] for (name, one), place in zip(self.values.items(), places, strict=True)}
        return {name: np.full(len(codes), value) for name, value in self.fixed.items()} | own


class ComputeLowerBounds:
    """Seconds of all layers, of what is before and of what is after them, both ways, for a microbatch.

    Under every cut of a frame; each combination of knobs is worked out once, when a system first has it.
    """

    def __init__(self, plans: ChipFreeCosts, graph: Graph, policies: tuple[int, ...], base: Chip, space: Space) -> None:
        self._space, self._base = space, base
        works = plans.works.sharded
        refuse_own_costs(works.local, (base.name,), "systems are ruled out by how costs grow with what a chip has")
        self._num_cuts = len(works.cuts)
        weight = np.zeros((len(PLACES), len(works.local) // self._num_cuts))
        for block, rows, place in zip(graph.blocks, works.blocks, places_of_blocks(graph), strict=True):
            runs = rows.runs[list(policies)].all(axis=0) & (rows.ops.phase != Phase.UPDATE)
            weight[place, rows.place] = block.repeat * runs
        first, which = equally_costed_rows(works.local)
        self._weights = np.zeros((len(PLACES) * self._num_cuts, len(first)))  # place after place
        for cut, row in enumerate(which.reshape(self._num_cuts, -1)):
            for place in range(len(PLACES)):
                np.add.at(self._weights[place * self._num_cuts + cut], row, weight[place])
        self._ops = works.local.taken(first)
        is_tensor = self._ops.unit == Unit.TENSOR
        self._tensor_names, most = self._product_knobs()
        self._tensor = self._table(self._tensor_names, np.flatnonzero(is_tensor), most)
        ones = {"num_tensor": 1.0, "num_rows": 1.0, "num_cols": 1.0}
        self._vector = self._table(VECTOR, np.flatnonzero(~is_tensor), ones)

    def _table(self, names: tuple[str, ...], rows: IntArray, fixed: dict[str, float]) -> _Table:
        values = {name: self._values(name) for name in names}
        num = int(np.prod([len(one) for one in values.values()]))
        return _Table(
            values=values,
            fixed=system_of(self._base, 1) | fixed,
            ops=self._ops.taken(rows),
            weights=self._weights[:, rows],
            known_s=np.empty((len(self._weights), num)),
            is_known=np.zeros(num, dtype=np.bool_),
        )

    def at(self, places: dict[str, IntArray]) -> FloatArray:
        """Of systems by which value of each knob they have: PLACES by cuts by systems."""
        tensor, vector = self._code(self._tensor_names, places), self._code(VECTOR, places)
        found_s = self._at_s(self._tensor, tensor) + self._at_s(self._vector, vector)
        found_s *= 1 - ROUNDING_TOLERANCE
        return found_s.reshape(len(PLACES), self._num_cuts, -1)

    def _product_knobs(self) -> tuple[tuple[str, ...], dict[str, float]]:
        """The knobs that products are distinguished by, and the most of the others."""
        for beside in (BESIDE, BESIDE[:1]):
            names = (*TENSOR[: -len(AROUND)], *beside, *AROUND)
            is_useful = beside == BESIDE or bool((self._values("vmem_mib") > NO_VMEM).any())
            if is_useful and np.prod([float(len(self._values(name))) for name in names]) <= TABLE_CHIPS:
                return names, {name: float(self._values(name).max()) for name in BESIDE if name not in beside}
        return TENSOR, {name: float(self._values(name).max()) for name in BESIDE}

    def _values(self, name: str) -> FloatArray:
        [knob] = [knob for knob in self._space.knobs if knob.name == name]
        return np.array(knob.values, dtype=np.float64)

    def _code(self, names: tuple[str, ...], places: dict[str, IntArray]) -> IntArray:
        code = np.zeros(len(places[names[0]]), dtype=np.int64)
        for name in names:
            code = code * len(self._values(name)) + places[name]
        return code

    def _at_s(self, table: _Table, code: IntArray) -> FloatArray:
        """Places and cuts by systems, of the combination of knobs that each has."""
        new = np.flatnonzero(np.bincount(code, minlength=len(table.is_known)).astype(np.bool_) & ~table.is_known)
        for start in range(0, len(new), SORTED_CHIPS):
            self._fill(table, new[start : start + SORTED_CHIPS])
        return np.take(table.known_s, code, axis=1)

    def _fill(self, table: _Table, codes: IntArray) -> None:
        """Works combinations out; each is summed at its place in its block, so that sums round the same whatever else
        is worked out with it.
        """
        compute_s = self._compute_s(table, codes)
        block_of = codes // CHIP_BATCH
        for block in np.unique(block_of).tolist():
            own, start = np.flatnonzero(block_of == block), block * CHIP_BATCH
            padded_s = np.zeros((len(table.ops), min(CHIP_BATCH, len(table.is_known) - start)))
            padded_s[:, codes[own] - start] = compute_s[:, own]
            table.known_s[:, codes[own]] = (table.weights @ padded_s)[:, codes[own] - start]
        table.is_known[codes] = True

    def _compute_s(self, table: _Table, codes: IntArray) -> FloatArray:
        """Operators by combinations. Those with the same arrays are costed together: their tiles are the same."""
        systems = table.systems(codes)
        order = np.lexsort((systems["num_cols"], systems["num_rows"]))
        compute_s = np.empty((len(table.ops), len(order)))
        for start in range(0, len(order), CHIP_BATCH):
            batch = order[start : start + CHIP_BATCH]
            chips = built_systems(self._base, {name: column[batch] for name, column in systems.items()}).chips
            compute_s[:, batch] = cost_table(table.ops, self._unhindered(chips, tuple(table.values))).compute_s
        return compute_s

    def _unhindered(self, chips: ChipColumns, names: tuple[str, ...]) -> ChipColumns:
        """With the largest buffer of a core that systems have, where its size follows from what a table leaves open."""
        is_open = has_own_buffers(self._base) if names == VECTOR else has_local_sram(self._base)
        if not is_open:
            return chips
        kib, num_macs = self._values("core_buffer_kib"), self._values("num_rows").max() * self._values("num_cols").max()
        by_size = float(own_buffer_bytes(self._base, num_macs)) if BY_SIZE in kib else 0.0
        largest = max(by_size, float(kib.max()) * KIBI, self._base.core_buffer_bytes)
        return replace(chips, core_buffer_bytes=np.maximum(chips.sram_bytes, largest))
