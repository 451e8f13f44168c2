"""Layers by stage of one plan whose layers are of several kinds in a given order: an exact program over stages.

A state is what is left of each kind before a stage, an edge an option that the stage may be. Patterns (`mixes`) say
which options those are; of each the program runs by itself. Of kinds that are interleaved a state is the position of
the stage's first layer, and an edge an option that holds the layers from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.parallel.layout import layers_per_chunk, stage_counts
from dovetail.parallel.plan import Plan
from dovetail.search.planners.cuts.path_diagram import CONVEX, Diagram, Edges, along_paths_s, diagram, paths_of
from dovetail.search.planners.cuts.plan_stages import PaceLowerBounds, PlanStages
from dovetail.search.planners.cuts.stage_options import StageOptions
from dovetail.search.planners.mixes import (
    LayerOrder,
    Pattern,
    StageLayers,
    holdable,
    kind_counts,
    layer_order,
    layers_by_chunk,
    num_patterns_at_most,
    patterns,
)
from dovetail.step.pipelines import schedule_name
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray

MAX_CUTS = 65_536  # that are looked at to prove that none is faster
MAX_PATTERNS = 256  # of where kinds may end; plans with more are not cut again
_TIME_TOLERANCE = 1e-9  # of the pace that leaves room for a stage: a low that rounds above it is no proof


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ways:
    """Cuts as ways from the first stage to the last: edges by stage, of one pattern after the other."""

    programs: tuple[list[Edges], ...]
    num_cuts: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixTable:
    """The options of one plan, those of a stage and mix of layers that are slower than another left out."""

    stages: PlanStages
    graph: Graph
    rows: tuple[IntArray, ...]  # of the options of each stage

    def best(self) -> IntArray | None:
        """Options of the cut with the least pace, and of those with the least sum."""
        time_s, best = self.stages.options.time_s, None
        for steps in self._programs(np.inf):
            least_s = float(_values(steps, time_s, np.maximum)[0][0])
            if not np.isfinite(least_s) or (best is not None and least_s > best[0]):
                continue
            quick_s = np.where(time_s <= least_s, time_s, np.inf)
            values = _values(steps, quick_s, np.add)
            if best is None or (least_s, float(values[0][0])) < best[:2]:
                best = (least_s, float(values[0][0]), _walked(steps, quick_s, values))
        return best[2] if best is not None else None

    def lower_bounds_s(
        self, best_s: float, least_per_step_s: float, per_step_s: Callable[[], FloatArray]
    ) -> PaceLowerBounds:
        """What no cut's step takes less than: by the least sum of its stages and the least pace."""
        del best_s, per_step_s  # of several kinds of layers no more is said
        nothing = np.empty((0, len(self.rows)), dtype=np.int64)
        return PaceLowerBounds(
            bounds_by_pace=((np.inf, self.stages.lower_bound_s(*self._lower_bounds()) + least_per_step_s),),
            cuts=nothing,
        )

    def _lower_bounds(self) -> tuple[float, float]:
        """No cut's stages take less together, and none's slowest stage: infinite where no cut fits."""
        time_s, least = self.stages.options.time_s, [np.inf, np.inf]
        for steps in self._programs(np.inf):
            for index, join in enumerate((np.add, np.maximum)):
                least[index] = min(least[index], float(_values(steps, time_s, join)[0][0]))
        return least[0], least[1]

    def within(self, pace_s: float) -> IntArray | None:
        """Options of all cuts of which no stage takes longer than `pace_s`; None where there are too many to list."""
        ways = self.ways(pace_s)
        if ways.num_cuts > MAX_CUTS:
            return None
        empty = np.empty((0, len(self.rows)), dtype=np.int64)
        return np.unique(np.concatenate([empty, *map(_listed, ways.programs)]), axis=0)

    def ways(self, pace_s: float) -> Ways:
        """All cuts of which no stage takes longer than `pace_s`, as edges, and how many these are."""
        programs = [_alive(steps) for steps in self._programs(pace_s)]
        return Ways(
            programs=tuple(steps for steps, num_cuts in programs if num_cuts),
            num_cuts=sum(num_cuts for _, num_cuts in programs),
        )

    @property
    def has_paths(self) -> bool:
        """Whether its step is the longest of paths that each add up stage by stage."""
        return schedule_name(self.stages.plan) in CONVEX

    def start_paths(self, ways: Ways) -> FloatArray:
        """Longest paths near the cut whose stages take least together, and where one of its stages is slower."""
        time_s = self.stages.options.time_s
        [steps, *_] = ways.programs
        rows = _walked(steps, time_s, _values(steps, time_s, np.add))
        return np.unique(paths_of(self.stages, rows, has_slow=True), axis=0)

    def least_path(self, ways: Ways, paths: FloatArray, per_step_s: FloatArray, below_s: float) -> Diagram:
        """What no cut is below by these paths and by what its options add once a step, and cuts that come close."""
        along_s, bound_s, cuts = along_paths_s(self.stages, paths), below_s, []
        for steps in ways.programs:
            found = diagram(steps, along_s, paths, per_step_s, below_s)
            bound_s = min(bound_s, found.lower_bound_s)
            cuts.append(found.cuts)
        return Diagram(lower_bound_s=bound_s, cuts=np.concatenate(cuts))

    def plan_of(self, rows: IntArray) -> Plan:
        """The plan whose stages are these options."""
        held, plan = self.stages.options.counts[rows], self.stages.plan
        kinds = [block.is_layer for block in self.graph.blocks]
        chunks: tuple[int, ...] = ()
        if self.graph.is_interleaved:
            chunks = tuple(held.sum(axis=1).tolist())
        elif not np.array_equal(stage_counts(self.graph, plan)[kinds].T, held):
            chunks = layers_by_chunk(plan, kind_counts(self.graph), held)
        is_even = chunks == layers_per_chunk(self.graph.num_layers, plan)
        return self.stages.plan_of(rows, () if is_even else chunks)

    def _programs(self, pace_s: float) -> list[list[Edges]]:
        """Of every pattern the edges from all layers to none, stage by stage, by options within the pace."""
        options, counts = self.stages.options, kind_counts(self.graph)
        rows = [some[options.time_s[some] <= pace_s] for some in self.rows]
        if self.graph.is_interleaved:
            steps = _ordered_program(layer_order(self.graph), options, rows)
            return [steps] if steps else []
        found = [_program(pattern, options.counts, rows, counts) for pattern in patterns(self.stages.plan, counts)]
        return [steps for steps in found if steps]


def mix_table(stages: PlanStages, graph: Graph) -> MixTable:
    options, rows = stages.options, []
    for stage in range(stages.plan.pipeline_parallel):
        stage_rows = np.flatnonzero(options.stage == stage)
        stage_rows = stage_rows[np.lexsort((options.num_again[stage_rows], options.time_s[stage_rows]))]
        layers = np.column_stack([options.counts[stage_rows], options.start[stage_rows]])
        _, first = np.unique(layers, axis=0, return_index=True)
        rows.append(stage_rows[np.sort(first)])
    return MixTable(stages=stages, graph=graph, rows=tuple(rows))


def has_few_patterns(plan: Plan, graph: Graph) -> bool:
    """Whether all of where kinds may end can be looked at; of interleaved kinds, whether stages hold a chunk each."""
    if graph.is_interleaved:
        return plan.num_chunks == plan.pipeline_parallel
    return num_patterns_at_most(plan.num_chunks, len(kind_counts(graph))) <= MAX_PATTERNS


def wanted_mixes(
    plan: Plan, graph: Graph, layer_s: FloatArray, fixed_s: FloatArray, pace_s: float
) -> list[StageLayers]:
    """Layers of each kind, by stage, that may be part of a cut whose slowest stage takes no longer than `pace_s`.

    `layer_s` of each kind and `fixed_s` of each stage add up to no more than a stage takes. A stage with too few leaves
    more to the others than these can run.
    """
    pace_s *= 1 + _TIME_TOLERANCE
    counts = kind_counts(graph)
    least_s = float(layer_s @ counts + fixed_s.sum()) - (len(fixed_s) - 1) * pace_s
    found = []
    if graph.is_interleaved:
        stages = layer_order(graph).stages(plan.pipeline_parallel)
    else:
        stages = [_grid(counts, may_hold) for may_hold in holdable(plan, counts)]
    for layers, stage_fixed_s in zip(stages, fixed_s, strict=True):
        mixes = layers.counts
        time_s = stage_fixed_s + mixes @ layer_s
        is_wanted = (mixes.sum(axis=1) >= plan.interleave) & (time_s <= pace_s) & (time_s >= least_s)
        found.append(layers.at(is_wanted))
    return found


def _grid(counts: IntArray, may_hold: BoolArray) -> StageLayers:
    """Every number of layers of each kind that a stage may hold."""
    ranges = [
        np.arange(count + 1) if may else np.zeros(1, dtype=np.int64)
        for count, may in zip(counts, may_hold, strict=True)
    ]
    mixes = np.stack([grid.ravel() for grid in np.meshgrid(*ranges, indexing="ij")], axis=1)
    return StageLayers(counts=mixes, start=np.zeros(len(mixes), dtype=np.int64))


def _ordered_program(order: LayerOrder, options: StageOptions, rows: list[IntArray]) -> list[Edges]:
    """Edges where kinds are interleaved: from the position of a stage's first layer to that of the next stage's."""
    position, found = np.zeros(1, dtype=np.int64), []
    for stage, stage_rows in enumerate(rows):
        behind = len(rows) - 1 - stage
        count = options.num_layers[stage_rows]
        end = position[:, None] + count
        fits = end <= order.num_layers - behind if behind else end == order.num_layers
        start, option = np.nonzero(fits)
        is_same_pattern = order.first_alike[position[start], count[option]] == options.start[stage_rows[option]]
        start, option = start[is_same_pattern], option[is_same_pattern]
        if not len(start):
            return []
        position, place = np.unique(end[start, option], return_inverse=True)
        found.append(Edges(start=start, end=place.reshape(-1), row=stage_rows[option]))
    return found


def _program(pattern: Pattern, mixes: IntArray, rows: list[IntArray], counts: IntArray) -> list[Edges]:
    """Edges of one pattern; none where no cut has it."""
    sizes = np.cumprod([1, *(counts[:-1] + 1)])
    # what stages behind must hold at least; and whether one of them may hold any
    behind = np.cumsum(pattern.fewest[::-1], axis=0)[::-1] - pattern.fewest
    later = np.cumsum(pattern.may_hold[::-1], axis=0)[::-1] > pattern.may_hold
    left, found = counts[None], []
    for stage, stage_rows in enumerate(rows):
        stage_mixes = mixes[stage_rows]
        fits = (stage_mixes >= pattern.fewest[stage]).all(axis=1) & ((stage_mixes == 0) | pattern.may_hold[stage]).all(
            axis=1
        )
        stage_rows, stage_mixes = stage_rows[fits], stage_mixes[fits]
        after = left[:, None] - stage_mixes
        is_edge = ((after >= behind[stage]) & ((after == 0) | later[stage])).all(axis=2)
        start, option = np.nonzero(is_edge)
        if not len(start):
            return []
        after = after[start, option]
        _, first, end = np.unique(after @ sizes, return_index=True, return_inverse=True)
        left = after[first]
        found.append(Edges(start=start, end=end.reshape(-1), row=stage_rows[option]))
    return found


def _values(steps: list[Edges], time_s: FloatArray, join: Callable[..., FloatArray]) -> list[FloatArray]:
    """The least that each state's way to the end takes, its stages' times joined by sum or by maximum."""
    values = [np.zeros(1)]
    for edges, num_states in zip(reversed(steps), reversed(_num_states(steps)), strict=True):
        value = np.full(num_states, np.inf)
        np.minimum.at(value, edges.start, join(time_s[edges.row], values[0][edges.end]))
        values.insert(0, value)
    return values


def _num_states(steps: list[Edges]) -> list[int]:
    """States before each stage, some of which may have no way on."""
    return [1, *(int(edges.end.max(initial=0)) + 1 for edges in steps[:-1])]


def _walked(steps: list[Edges], time_s: FloatArray, values: list[FloatArray]) -> IntArray:
    """The options of the way with the least sum."""
    state, chosen = 0, []
    for edges, value in zip(steps, values[1:], strict=True):
        edges_out = np.flatnonzero(edges.start == state)
        best = edges_out[int((time_s[edges.row[edges_out]] + value[edges.end[edges_out]]).argmin())]
        chosen.append(int(edges.row[best]))
        state = int(edges.end[best])
    return np.array(chosen)


def _alive(steps: list[Edges]) -> tuple[list[Edges], int]:
    """The edges that lie on a way to the end, and how many ways there are."""
    num_paths = np.ones(1)
    kept: list[Edges] = []
    for edges, num_states in zip(reversed(steps), reversed(_num_states(steps)), strict=True):
        paths_onward = num_paths[edges.end]
        before = np.zeros(num_states)
        np.add.at(before, edges.start, paths_onward)
        kept.insert(0, edges.at(np.flatnonzero(paths_onward > 0)))
        num_paths = before
    return kept, int(min(num_paths[0], 2.0**53))


def _listed(steps: list[Edges]) -> IntArray:
    """The options of every way, ways by stages."""
    state, chosen = np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
    for edges in steps:
        path, edge = np.nonzero(state[:, None] == edges.start[None, :])
        chosen = np.column_stack([chosen[path], edges.row[edge]])
        state = edges.end[edge]
    return chosen
