"""What a step of a plan takes at least on any chip: straight lines in what a microbatch computes.

Of a base plan, layers and recompute by stage are open. Its rows differ in how many layers the stage with the most
holds: few make it fast, but leave more to the stages that also hold embedding and head, and these exchange the most.
Each row has several lines, all valid, so their greatest is; a base plan takes no less than the least of its rows.
docs/model/codesign.md has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.search.planners.bounds.block_lower_bounds import block_lower_bounds
from dovetail.search.planners.bounds.step_lower_bounds import ROUNDING_TOLERANCE, layer_blocks
from dovetail.step.plan_table import PlanContext
from dovetail.workload.graph import FloatArray, Graph, IntArray

PLACES = ("layers", "first", "last")  # where a microbatch computes: in all layers, before them and after them
COLUMNS = ("base", "cut", "slope", "fixed_s", "bare_s", "entries")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AffineLowerBounds:
    """Rows by lines. A step takes `slope` times what a microbatch takes in PLACES, and `fixed_s`, or more.

    `fixed_s` has the waits of a microbatch in it; in `bare_s` they are left out, for times that have them. `entries`
    is how often the entering of a stage is part of a line.
    """

    base: IntArray  # which of the frame's base plans, rising
    cut: IntArray
    slope: FloatArray  # rows by lines by places
    fixed_s: FloatArray
    bare_s: FloatArray
    entries: FloatArray

    def at(self, rows: IntArray) -> AffineLowerBounds:
        return AffineLowerBounds(**{name: getattr(self, name)[rows] for name in COLUMNS})

    def of_bases(self, bases: IntArray) -> AffineLowerBounds:
        """Those of some base plans."""
        return self.at(np.flatnonzero(np.isin(self.base, bases)))

    def step_s(self, compute_s: FloatArray) -> FloatArray:
        """Rows by chips, of what each cut computes: places by cuts by chips."""
        own_s = compute_s[:, self.cut]
        found_s = np.zeros((len(self.base), compute_s.shape[2]))
        for way in range(self.slope.shape[1]):
            way_s = np.einsum("rp,prc->rc", self.slope[:, way], own_s) + self.fixed_s[:, way, None]
            np.maximum(found_s, way_s, out=found_s)
        return found_s

    def without_lower_lines(self) -> AffineLowerBounds:
        """Of one row: those of its lines that no other is above, or the first of equal ones, whatever the compute."""
        [figures] = np.concatenate([self.slope, self.fixed_s[:, :, None]], axis=2)
        is_above = (figures[:, None] >= figures).all(axis=2)  # lines by lines
        is_first = np.tri(len(figures), k=-1, dtype=np.bool_).T
        is_left = ~(is_above & (~is_above.T | is_first)).any(axis=0)
        lines = {name: getattr(self, name)[:, is_left] for name in ("slope", "fixed_s", "bare_s", "entries")}
        return replace(self, **lines)

    def least_s(self, compute_s: FloatArray) -> tuple[IntArray, FloatArray]:
        """Base plans that have rows, and what they take at least: base plans by chips."""
        bases, start = np.unique(self.base, return_index=True)
        if not len(bases):
            return bases, np.empty((0, compute_s.shape[2]))
        return bases, np.minimum.reduceat(self.step_s(compute_s), start, axis=0)

    def of_pairs_s(self, base: IntArray, times_s: FloatArray, call_s: FloatArray) -> FloatArray:
        """Of pairs of a base plan and a chip, by what a microbatch takes there: places by pairs, waits in it."""
        start, end = (np.searchsorted(self.base, base, side=side) for side in ("left", "right"))
        found_s = np.full(len(base), np.inf)
        for more in range(int((end - start).max(initial=0))):
            row = np.minimum(start + more, end - 1)
            lines_s = np.einsum("nwp,pn->nw", self.slope[row], times_s) + self.bare_s[row]
            found_s = np.minimum(found_s, (lines_s - self.entries[row] * call_s[:, None]).max(axis=1))
        return found_s * (1 - ROUNDING_TOLERANCE)

    def lowest(self) -> AffineLowerBounds:
        """Those of which no other of the same cut is below in all lines, whatever the compute."""
        kept = []
        for cut in np.unique(self.cut).tolist():
            rows = np.flatnonzero(self.cut == cut)
            figures = np.concatenate([self.slope[rows].reshape(len(rows), -1), self.fixed_s[rows]], axis=1)
            front: list[int] = []
            for row in np.lexsort(figures.T).tolist():
                if not front or not (figures[front] <= figures[row]).all(axis=1).any():
                    front.append(row)
            kept.append(rows[front])
        return self.at(np.concatenate(kept)) if kept else self


def places_of_blocks(graph: Graph) -> list[int]:
    """Which of PLACES each block is in."""
    kinds = layer_blocks(graph)
    outside = [PLACES.index("first" if index < kinds[0] else "last") for index in range(len(graph.blocks))]
    return [0 if block.is_layer else outside[index] for index, block in enumerate(graph.blocks)]


def pair_times_s(context: PlanContext, policies: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """What a microbatch takes at least of each plan, places by plans, and what entering a stage may take of it."""
    block_bounds, variant = block_lower_bounds(context.graph, context.table), context.table.comm_variant_of
    times_s = np.zeros((len(PLACES), len(variant)))
    for index, place in enumerate(places_of_blocks(context.graph)):
        times_s[place] += context.graph.blocks[index].repeat * block_bounds.least_s(index, policies)[variant]
    return times_s, block_bounds.call_s[variant]
