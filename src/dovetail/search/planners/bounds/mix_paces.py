"""The least pace of stages that hold layers of several kinds, from below; see `stage_paces` for layers all alike.

A stage of x_k layers of kind k that mixes policies takes no less than the program over shares of policies, and that no
less than its dual: for a price of memory each layer takes the policy that is cheapest with what it keeps, less what
memory the stage has is worth. The best price is a slope between two policies of a kind, or none.

At a pace P a stage holds some mixes; let g be the most work, in seconds of layers at their fastest, that one of these
has. Stages hold all layers only if their g add up to the work of all: the least such P is below every true pace.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from dovetail.parallel.memory import MemoryTable, room_bytes
from dovetail.parallel.plan import Plan
from dovetail.search.planners.bounds.stage_paces import ROOM_TOLERANCE, state_bytes
from dovetail.search.planners.mixes import holdable, kind_counts, layer_order
from dovetail.step.pipelines import PipelineShape, pipelines, schedule_name
from dovetail.step.plan_table import PlanContext
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

TABLE_ELEMENTS = 800_000  # plans by mixes at a time
MAX_MIXES = 4_096  # of interleaved kinds on stages of several chunks; with more, only the sum over stages bounds a step
NUM_HALVINGS = 12  # of the pace; the lower end is the answer
_WORK_TOLERANCE = 1e-9  # of all work, so that rounding forces nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerMixLowerBounds:
    """Plans of one pipeline: what their layers take at least, kind by kind, and the pace beyond which none matters."""

    rows: IntArray
    layer_s: tuple[FloatArray, ...]  # of each kind, plans by policies
    fixed_s: FloatArray  # plans by stages
    sum_s: FloatArray
    limit_s: FloatArray

    def at(self, places: slice | IntArray) -> LayerMixLowerBounds:
        return LayerMixLowerBounds(
            rows=self.rows[places],
            layer_s=tuple(layer_s[places] for layer_s in self.layer_s),
            fixed_s=self.fixed_s[places],
            sum_s=self.sum_s[places],
            limit_s=self.limit_s[places],
        )

    @property
    def least_s(self) -> FloatArray:
        """One layer of each kind at its fastest, plans by kinds."""
        return np.stack([layer_s.min(axis=1) for layer_s in self.layer_s], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Memory:
    """What a stage may hold and what layers of each kind take of it: plans, by kinds and by policies."""

    limit_bytes: FloatArray
    state_bytes: FloatArray  # plans by kinds
    passing_bytes: FloatArray  # plans by kinds
    kept_bytes: tuple[FloatArray, ...]  # of each kind, plans by policies


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Line:
    """A price of memory in seconds a byte, and what a layer of each kind then takes: plans by kinds."""

    layer_s: FloatArray
    price_s: FloatArray


def least_mix_paces_s(
    context: PlanContext, table: MemoryTable, mix_bounds: LayerMixLowerBounds, policies: tuple[int, ...]
) -> FloatArray:
    """A pace that none of the plans' cuts is below; infinite where none fits, or none within the limit."""
    graph = context.graph
    plan, counts = context.plans.plan(int(mix_bounds.rows[0])), kind_counts(graph)
    has_one_chunk = plan.num_chunks == plan.pipeline_parallel
    if graph.is_interleaved and not has_one_chunk and np.prod(counts + 1.0) > MAX_MIXES:
        return np.zeros(len(mix_bounds.rows))
    pace_s = np.full(len(mix_bounds.rows), np.inf)
    start = 0
    while start < len(mix_bounds.rows):
        ahead = mix_bounds.at(slice(start, start + TABLE_ELEMENTS))
        if graph.is_interleaved and not has_one_chunk:  # whatever chunks a stage has, it holds some mix of kinds
            any_kind = np.ones(len(counts), dtype=bool)
            mixes = [_mixes(plan, counts, any_kind, ahead)] * plan.pipeline_parallel
        elif graph.is_interleaved:
            stages = layer_order(graph).stages(plan.pipeline_parallel)
            mixes = [_within(np.unique(stage.counts, axis=0), _most(counts, ahead)) for stage in stages]
        else:
            mixes = [_mixes(plan, counts, may_hold, ahead) for may_hold in holdable(plan, counts)]
        many = max(1, TABLE_ELEMENTS // sum(map(len, mixes)))
        batch = slice(start, min(start + many, len(mix_bounds.rows)))
        pace_s[batch] = _least_s(context, table, mix_bounds.at(batch), mixes, policies)
        start = batch.stop
    return pace_s


def _mixes(plan: Plan, counts: IntArray, may_hold: BoolArray, mix_bounds: LayerMixLowerBounds) -> IntArray:
    """Layers of each kind on a stage: one a chunk or more, and no more than the limit leaves time for."""
    most = _most(counts, mix_bounds)
    ranges = [range(int(max(0, n)) + 1) if may else range(1) for n, may in zip(most, may_hold, strict=True)]
    found = np.array(list(product(*ranges)), dtype=np.int64)
    return np.asarray(found[found.sum(axis=1) >= min(plan.interleave, int(found.sum(axis=1).max()))])


def _most(counts: IntArray, mix_bounds: LayerMixLowerBounds) -> FloatArray:
    """Layers of each kind that the limit leaves time for."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.nanmax((mix_bounds.limit_s - mix_bounds.fixed_s.min(axis=1))[:, None] / mix_bounds.least_s, axis=0)
    return np.asarray(np.minimum(np.where(np.isfinite(most), most, counts), counts))


def _within(mixes: IntArray, most: FloatArray) -> IntArray:
    """Those of `mixes` that the limit leaves time for, and of all the one with fewest layers."""
    is_kept = np.asarray((mixes <= most).all(axis=1))
    is_kept[mixes.sum(axis=1).argmin()] = True
    return np.asarray(mixes[is_kept])


def _least_s(
    context: PlanContext,
    table: MemoryTable,
    mix_bounds: LayerMixLowerBounds,
    mixes: list[IntArray],
    policies: tuple[int, ...],
) -> FloatArray:
    memory = _memory(context, table, mix_bounds.rows, policies)
    in_flight = _in_flight(context, table, mix_bounds.rows)
    lines = _lines(memory, mix_bounds)
    times_s = [
        _times_s(memory, mix_bounds, lines, in_flight[:, stage], stage, stage_mixes)
        for stage, stage_mixes in enumerate(mixes)
    ]
    works_s = [mix_bounds.least_s @ stage_mixes.T for stage_mixes in mixes]
    whole_s = mix_bounds.least_s @ kind_counts(context.graph) * (1 - _WORK_TOLERANCE)

    def fits(places: IntArray, pace_s: FloatArray) -> BoolArray:
        held_s = np.zeros(len(places))
        for time_s, work_s in zip(times_s, works_s, strict=True):
            held_s += np.where(time_s[places] <= pace_s[:, None], work_s[places], -np.inf).max(axis=1)
        return held_s >= whole_s[places]

    longest_s = np.max([np.where(np.isfinite(t), t, 0.0).max(axis=1) for t in times_s], axis=0)
    high_s = np.minimum(mix_bounds.limit_s, longest_s)
    pace_s = np.full(len(mix_bounds.rows), np.inf)
    places = np.flatnonzero(fits(np.arange(len(pace_s)), high_s))
    lower_bound_s, high_s = (mix_bounds.sum_s / len(mixes))[places], high_s[places]
    for _ in range(NUM_HALVINGS if len(places) else 0):
        middle_s = (lower_bound_s + high_s) / 2
        is_enough = fits(places, middle_s)
        lower_bound_s, high_s = np.where(is_enough, lower_bound_s, middle_s), np.where(is_enough, middle_s, high_s)
    pace_s[places] = lower_bound_s
    return pace_s


def _memory(context: PlanContext, table: MemoryTable, rows: IntArray, policies: tuple[int, ...]) -> _Memory:
    kinds = [index for index, block in enumerate(context.graph.blocks) if block.is_layer]
    cut, chosen = table.cuts.of_plan[rows], list(policies)
    memories = [table.memories[kind] for kind in kinds]
    return _Memory(
        limit_bytes=room_bytes(context.plans.at(rows), context.cluster.usable_bytes) * (1 + ROOM_TOLERANCE),
        state_bytes=np.stack([state_bytes(table, kind, rows) for kind in kinds], axis=1),
        passing_bytes=np.stack([memory.passing_bytes[cut][:, chosen].min(axis=1) for memory in memories], axis=1),
        kept_bytes=tuple(
            (1 - table.choices.offload_activations_frac) * memory.kept_bytes[cut][:, chosen] for memory in memories
        ),
    )


def _in_flight(context: PlanContext, table: MemoryTable, rows: IntArray) -> FloatArray:
    """Microbatches under way, plans by stages."""
    plan = context.plans.plan(int(rows[0]))
    shape = PipelineShape(
        num_stages=plan.pipeline_parallel, num_microbatches=table.num_microbatches[rows], interleave=plan.interleave
    )
    pipeline = pipelines[schedule_name(plan)]
    stages = range(plan.pipeline_parallel)
    return np.stack([np.broadcast_to(pipeline.in_flight(stage, shape), (len(rows),)) for stage in stages], axis=1)


def _lines(memory: _Memory, mix_bounds: LayerMixLowerBounds) -> list[_Line]:
    prices_s = [np.zeros(len(mix_bounds.rows))]
    for kept_bytes, layer_s in zip(memory.kept_bytes, mix_bounds.layer_s, strict=True):
        for a, b in combinations(range(layer_s.shape[1]), 2):
            apart = kept_bytes[:, b] - kept_bytes[:, a]
            price_s = np.where(apart != 0, (layer_s[:, a] - layer_s[:, b]) / np.where(apart != 0, apart, 1.0), 0.0)
            if (price_s > 0).any():
                prices_s.append(np.maximum(price_s, 0.0))
    each = list(zip(memory.kept_bytes, mix_bounds.layer_s, strict=True))
    return [
        _Line(
            layer_s=np.stack([(layer_s + price_s[:, None] * kept).min(axis=1) for kept, layer_s in each], axis=1),
            price_s=price_s,
        )
        for price_s in prices_s
    ]


def _times_s(
    memory: _Memory,
    mix_bounds: LayerMixLowerBounds,
    lines: list[_Line],
    in_flight: FloatArray,
    stage: int,
    mixes: IntArray,
) -> FloatArray:
    """Least times of a stage with each of the mixes, plans by mixes; infinite where they do not fit."""
    passing_bytes = np.max(np.where(mixes > 0, memory.passing_bytes[:, None, :], 0.0), axis=2)
    left_bytes = memory.limit_bytes[:, None] - passing_bytes - memory.state_bytes @ mixes.T
    room_bytes = left_bytes / in_flight[:, None]
    times_s = np.zeros(room_bytes.shape)
    for line in lines:
        np.maximum(times_s, line.layer_s @ mixes.T - line.price_s[:, None] * room_bytes, out=times_s)
    least_bytes = np.stack([kept.min(axis=1) for kept in memory.kept_bytes], axis=1) @ mixes.T
    return np.where(room_bytes >= least_bytes, mix_bounds.fixed_s[:, [stage]] + times_s, np.inf)
