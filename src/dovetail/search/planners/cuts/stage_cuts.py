"""Layers by stage of one plan whose layers are alike: the least pace first, then neighbours of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import Plan
from dovetail.search.planners.bounds.step_lower_bounds import ROUNDING_TOLERANCE
from dovetail.search.planners.cuts.partition_1f1b import partition_1f1b
from dovetail.search.planners.cuts.plan_stages import PaceLowerBounds, PlanStages
from dovetail.search.planners.least_pace import Cut, least_pace_s, least_sum
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

MAX_CUTS = 4096  # that are looked at to prove that none is faster
MAX_MOVED = 128  # stages between which any layer may move: of more there are too many pairs to look at
MAX_MOVES = 24  # layers that are moved one after the other; pipelines of the catalogue's models stop after a few


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageTable:
    """The fastest option for every stage and number of layers of one plan; its row, or -1 where nothing fits."""

    stages: PlanStages
    row: IntArray  # stages by layers
    fewest: int  # that a stage may hold
    most: int  # asked about
    num_layers: int

    @property
    def time_s(self) -> FloatArray:
        """Seconds of a stage by its layers: none below the fewest that it may hold, infinite where nothing fits."""
        time_s = np.append(self.stages.options.time_s, np.inf)[self.row]  # the last stands for what does not fit
        time_s[:, : self.fewest] = 0.0
        return time_s

    def rows_of(self, layers: IntArray) -> IntArray:
        """Options of pipelines with so many layers by stage."""
        return self.row[np.arange(layers.shape[-1]), layers]

    def best(self) -> IntArray | None:
        """Options of the best cut found, from the least pace, and from an even cut, by moves of a layer."""
        starts = [layers for layers in (self._least_pace(), _even(self)) if layers is not None]
        if not starts:
            return None
        steps_s = self.stages.steps_s(self.rows_of(np.stack(starts)))
        layers, step_s = starts[int(steps_s.argmin())], float(steps_s.min())
        moves = self._moves(layers)
        for _ in range(MAX_MOVES if len(moves) and np.isfinite(step_s) else 0):
            near = layers + moves
            near = near[((near >= self.fewest) & (near < self.row.shape[1])).all(axis=1)]
            if not len(near):
                break
            near_s = self.stages.steps_s(self.rows_of(near))
            if near_s.min() >= step_s:
                break
            layers, step_s = near[int(near_s.argmin())], float(near_s.min())
        return self.rows_of(layers) if np.isfinite(step_s) else None

    def _moves(self, layers: IntArray) -> IntArray:
        """A layer to one stage from another: every pair, or of very many stages to the quickest from the slowest."""
        num_stages = len(layers)
        to = of = np.arange(num_stages)
        if num_stages > MAX_MOVED:
            by_time = self.time_s[to, layers].argsort(kind="stable")
            to, of = by_time[: MAX_MOVED // 2], by_time[-MAX_MOVED // 2 :]
        pairs = np.stack(np.meshgrid(to, of, indexing="ij"), axis=-1).reshape(-1, 2)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        moves = np.zeros((len(pairs), num_stages), dtype=np.int64)
        moves[np.arange(len(pairs)), pairs[:, 0]] = 1
        moves[np.arange(len(pairs)), pairs[:, 1]] = -1
        return moves

    def lower_bounds_s(
        self, best_s: float, least_per_step_s: float, per_step_s: Callable[[], FloatArray]
    ) -> PaceLowerBounds:
        """What no cut's step takes less than: of each pace, the least that stages within it take together.

        Beside its pipeline a step has what the stage with most has, by option `per_step_s`. A stage of fewer layers
        takes
        no longer, nor one with more than was asked about less than with the most of them. Where that leaves a step
        below `best_s`, the cuts with the shortest way are looked for, and proposed.
        """
        time_s = np.minimum.accumulate(self.time_s[:, : self.most + 1][:, ::-1], axis=1)[:, ::-1]
        time_s[:, : self.fewest] = np.inf  # every chunk holds a layer, so nothing below was to be asked about
        beyond_s = float(time_s[:, -1].min()) if self.most < self.num_layers else np.inf
        paces_s = np.unique(time_s[np.isfinite(time_s)])
        paces_s = paces_s[paces_s < beyond_s]
        sums_s = _least_sums_s(time_s, paces_s, self.num_layers)
        shared_s = np.maximum(least_per_step_s, self._least_per_step_s(per_step_s(), paces_s))
        pace_bounds = [
            (pace_s, self.stages.lower_bound_s(sum_s, pace_s) + overlappable_s if np.isfinite(sum_s) else np.inf)
            for sum_s, pace_s, overlappable_s in zip(sums_s.tolist(), paces_s.tolist(), shared_s.tolist(), strict=True)
        ]
        cuts: list[tuple[int, ...]] = []
        if self.stages.can_walk and any(lower_bound_s < best_s for _, lower_bound_s in pace_bounds):
            is_in = self.stages.options.time_s < beyond_s
            path_s, cuts = self._walked(best_s, is_in, np.maximum(least_per_step_s, per_step_s()), float(shared_s[-1]))
            pace_bounds = [(pace_s, max(lower_bound_s, path_s)) for pace_s, lower_bound_s in pace_bounds]
        if np.isfinite(beyond_s):
            pace_bounds.append((np.inf, self.stages.lower_bound_s(0.0, beyond_s) + least_per_step_s))
        proposed = np.array(list(dict.fromkeys(cuts)), dtype=np.int64).reshape(-1, len(time_s))
        return PaceLowerBounds(bounds_by_pace=tuple(pace_bounds), cuts=self.rows_of(proposed))

    def _walked(
        self, best_s: float, is_in: BoolArray, per_step_s: FloatArray, least_per_step_s: float
    ) -> tuple[float, list[tuple[int, ...]]]:
        """A step that no cut by options that are in is below, `best_s` at most, and cuts that come close to it.

        The stage with most once a step has one of the levels of `per_step_s`, `least_per_step_s` or more, and the
        others no
        more than it; with fewer options the shortest way is no shorter.
        """
        whole = partition_1f1b(*self._ways_s(is_in), self.num_layers, self.stages, best_s - least_per_step_s)
        lower_bound_s, cuts = best_s, [whole.layers] if whole.layers else []
        for level_s in np.unique(per_step_s[is_in & (per_step_s >= least_per_step_s)]).tolist():
            below_s = lower_bound_s - level_s
            if whole.lower_bound_s >= below_s:
                break
            walk = partition_1f1b(*self._ways_s(is_in & (per_step_s <= level_s)), self.num_layers, self.stages, below_s)
            if walk.lower_bound_s < below_s:
                lower_bound_s = walk.lower_bound_s + level_s
                cuts += [walk.layers] if walk.layers else []
        return lower_bound_s, cuts

    def _ways_s(self, is_in: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Forward and backward seconds by stage and layers; infinite but for options that are in."""
        options, row = self.stages.options, self.row[:, : self.most + 1]
        is_out = ~np.append(is_in, False)[row]
        is_out[:, : self.fewest] = True
        forward_s, backward_s = (np.append(way_s, 0.0)[row] for way_s in (options.forward_s, options.backward_s))
        return np.where(is_out, np.inf, forward_s), np.where(is_out, np.inf, backward_s)

    def _least_per_step_s(self, per_step_s: FloatArray, paces_s: FloatArray) -> FloatArray:
        """By rising pace, what the stage with most once a step has at least, whichever cut keeps within that pace.

        With options of so much or less, stages can hold all layers together. Infinite where they cannot.
        """
        options, row = self.stages.options, self.row[:, : self.most + 1]
        time_s, own_s = np.append(options.time_s, np.inf)[row], np.append(per_step_s, np.inf)[row]
        layers, levels_s = np.arange(row.shape[1]), np.unique(own_s[np.isfinite(own_s)])

        def holds_all(level_s: float, pace_s: float) -> bool:
            most = np.where((time_s <= pace_s) & (own_s <= level_s), layers, -1).max(axis=1)
            return int(most.sum()) >= self.num_layers and bool((most >= 0).all())

        found_s, place = np.full(len(paces_s), np.inf), len(levels_s)
        for index, pace_s in enumerate(paces_s.tolist()):
            while place and holds_all(float(levels_s[place - 1]), pace_s):
                place -= 1
            found_s[index] = levels_s[place] if place < len(levels_s) else np.inf
        return found_s

    def without(self, best_s: float, per_step_s: FloatArray) -> StageTable:
        """Without options that leave every cut with them at `best_s` or above; `per_step_s` is once a step.

        A cut with an option has a stage as slow as this one, all its stages together, and once a step no less.
        """
        stages, options = self.stages, self.stages.options
        time_s = self.time_s
        time_s[:, : self.fewest] = np.inf
        sum_s = float(_least_sums_s(time_s, np.array([np.inf]), self.num_layers)[0])
        if not np.isfinite(sum_s):
            return self
        lower_bound_s = stages.lower_bounds_s(sum_s, options.time_s)
        is_last = options.stage == stages.plan.pipeline_parallel - 1
        lower_bound_s = np.where(
            is_last & stages.is_straight, np.maximum(lower_bound_s, stages.last_lower_bound_s(sum_s)), lower_bound_s
        )
        is_out = np.append((lower_bound_s + per_step_s) * (1 - ROUNDING_TOLERANCE) >= best_s, False)
        return replace(self, row=np.where(is_out[self.row], -1, self.row))

    def within(self, pace_s: float) -> IntArray | None:
        """Options of all cuts of which no stage takes longer than `pace_s`; None where there are too many to list.

        Or where a stage could hold more than was asked about.
        """
        # from the right, so that a stage which is faster with more layers is not left out
        time_s = np.minimum.accumulate(self.time_s[:, ::-1], axis=1)[:, ::-1]
        most = (time_s <= pace_s).sum(axis=1) - 1
        surplus = int(most.sum()) - self.num_layers
        if surplus < 0:
            return np.empty((0, len(most)), dtype=np.int64)
        is_edge = (most == self.most) & (self.most < self.num_layers - (len(most) - 1) * self.fewest)
        if is_edge.any() or comb(surplus + len(most) - 1, surplus) > MAX_CUTS:
            return None
        cuts = most - _shared_out(surplus, len(most))
        return self.rows_of(cuts[(cuts >= self.fewest).all(axis=1)])

    def plan_of(self, rows: IntArray) -> Plan:
        """The plan whose stages are these options."""
        return self.stages.plan_of(rows, _by_chunk(self, self.stages.options.num_layers[rows]))

    def _least_pace(self) -> IntArray | None:
        time_s = np.maximum.accumulate(self.time_s, axis=1)[None]  # a stage takes no less with more layers
        cut = Cut(
            num_units=np.array([self.num_layers]),
            is_stage=np.ones(time_s.shape[:2], dtype=bool),
            min_units=self.fewest,
        )
        pace_s = least_pace_s(cut, time_s)
        if not np.isfinite(pace_s[0]):
            return None
        num_most = (time_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2)
        return np.asarray(least_sum(cut, time_s, num_most, np.array([True]))[0])


def stage_table(stages: PlanStages, layer_range: tuple[int, int], num_layers: int) -> StageTable:
    """`layer_range` are the fewest layers that a stage may hold, and the most that options were asked for."""
    fewest, most = layer_range
    options = stages.options
    row = np.full((stages.plan.pipeline_parallel, most + 2), -1)
    order = np.lexsort((options.num_again, options.time_s))[::-1]  # the fastest is written last
    row[options.stage[order], options.num_layers[order]] = order
    return StageTable(stages=stages, row=row, fewest=fewest, most=most, num_layers=num_layers)


def _least_sums_s(time_s: FloatArray, paces_s: FloatArray, num_layers: int) -> FloatArray:
    """The least that stages take together which hold all layers, none of them longer than each of `paces_s`."""
    sums_s = np.full((len(paces_s), num_layers + 1), np.inf)
    sums_s[:, 0] = 0.0
    for stage_s in time_s:
        own_s = np.where(stage_s <= paces_s[:, None], stage_s, np.inf)
        longer_s = np.full_like(sums_s, np.inf)
        for num, taken_s in enumerate(own_s.T[: num_layers + 1]):
            if np.isfinite(stage_s[num]):
                held = num_layers + 1 - num
                np.minimum(longer_s[:, num:], sums_s[:, :held] + taken_s[:, None], out=longer_s[:, num:])
        sums_s = longer_s
    return np.asarray(sums_s[:, num_layers])


def _shared_out(surplus: int, num_stages: int) -> IntArray:
    """All ways to take `surplus` layers from the stages."""
    taken = np.zeros((1, 0), dtype=np.int64)
    for stage in range(num_stages):
        left = surplus - taken.sum(axis=1)
        few = left if stage == num_stages - 1 else np.zeros_like(left)
        choices = [np.arange(low, high + 1) for low, high in zip(few, left, strict=True)]
        sizes = [len(some) for some in choices]
        taken = np.column_stack([np.repeat(taken, sizes, axis=0), np.concatenate(choices)])
    return taken


def _even(table: StageTable) -> IntArray | None:
    """The layers of an even cut by stage, where they lie within what was asked about."""
    plan = table.stages.plan
    layers = np.zeros(plan.pipeline_parallel, dtype=np.int64)
    for homes, count in zip(plan.chunk_stages, layers_per_chunk(table.num_layers, plan), strict=True):
        layers[list(homes)] += count
    is_asked = ((layers >= table.fewest) & (layers < table.row.shape[1])).all()
    return layers if is_asked else None


def _by_chunk(table: StageTable, layers: IntArray) -> tuple[int, ...]:
    """Layers of each chunk, those of a stage as equal as can be; nothing where that is how an even cut lies."""
    plan, left, seen = table.stages.plan, layers.tolist(), [0] * len(layers)
    chunks = []
    for [stage] in plan.chunk_stages:
        num_left = plan.interleave - seen[stage]
        chunks.append(-(-left[stage] // num_left))
        left[stage] -= chunks[-1]
        seen[stage] += 1
    even = _even(table)
    is_even = even is not None and bool((even == layers).all())
    return () if is_even else tuple(chunks)
