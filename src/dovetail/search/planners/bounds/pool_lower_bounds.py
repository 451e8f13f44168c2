"""What a step takes at least on a cluster of several pools, whatever its layers and recompute by stage.

A stage takes no less than the sum of the lows of its blocks on its own chip, with the recompute that its own memory
forces (`stage_paces`). From that comes the least pace at which all layers fit on the stages. A slower pace lets faster
pools hold more, and one microbatch through all stages takes less then: so the bound is the least over all paces of what
the pace and the sum that goes with it give (docs/model/planning.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.parallel.layout import LayerSpan, StageGroup, stage_counts
from dovetail.parallel.memory import MemoryTable
from dovetail.parallel.plan import Plan
from dovetail.search.planners.bounds.block_lower_bounds import BlockLowerBounds
from dovetail.search.planners.bounds.pipeline_lower_bounds import pipeline_lower_bound_s
from dovetail.search.planners.bounds.stage_paces import stage_times_s
from dovetail.search.planners.bounds.step_lower_bounds import ROUNDING_TOLERANCE, layer_blocks
from dovetail.search.planners.least_pace import Cut, least_pace_s
from dovetail.step.hops import hops_before, sending_kinds
from dovetail.step.pipelines import PipelineShape, schedule_name
from dovetail.step.plan_table import PlanContext
from dovetail.step.stage_columns import gradient_sync, held_elements
from dovetail.step.work import cost_of
from dovetail.workload.graph import FloatArray, IntArray

# Paces that are looked at, of the least; between two of them the sum is that of the slower, the pace of the faster.
SLOWER = (1.0, 1.001, 1.003, 1.01, 1.03, 1.1, 1.3, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolLowerBounds:
    """Plans of one pipeline whose stages are on the same pools of a cluster: the least that they take."""

    plan: Plan  # one of them
    stage_pool: tuple[int, ...]
    num_layers: int
    num_microbatches: IntArray
    table_s: FloatArray  # a microbatch on each stage, plans by stages by layers
    fixed_s: FloatArray  # of it what is no layer, plans by stages
    layer_s: FloatArray  # a layer on each pool, plans by pools
    lag_s: FloatArray  # the shortest hop that is waited for
    per_step_s: FloatArray  # that every step has beside its pipeline

    @property
    def cut(self) -> Cut:
        num_plans, num_stages, _ = self.table_s.shape
        return Cut(
            num_units=np.full(num_plans, self.num_layers),
            is_stage=np.ones((num_plans, num_stages), dtype=bool),
            min_units=self.plan.interleave,
        )

    def bounds_s(self, table_s: FloatArray) -> FloatArray:
        """No step is below, if no stage is below `table_s`; infinite where the layers do not fit on the stages."""
        pace_s = least_pace_s(self.cut, table_s)
        fits = np.isfinite(pace_s)
        pace_s = np.where(fits, pace_s, 0.0)
        lower_bounds_s = []
        for factor, next_factor in zip(SLOWER, (*SLOWER[1:], np.inf), strict=True):
            sum_s = self._sum_s(
                table_s, pace_s * next_factor if np.isfinite(next_factor) else np.full_like(pace_s, np.inf)
            )
            lower_bounds_s.append(
                pipeline_lower_bound_s(schedule_name(self.plan), sum_s, factor * pace_s, self.lag_s, self._shape)
            )
        step_s = np.min(lower_bounds_s, axis=0) + self.per_step_s
        return np.where(fits, step_s * (1 - ROUNDING_TOLERANCE), np.inf)

    def _sum_s(self, table_s: FloatArray, pace_s: FloatArray) -> FloatArray:
        """One microbatch through all stages at least, if none takes longer than `pace_s`: fastest pools are full."""
        room = (table_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2)
        rooms = np.stack([room[:, np.array(self.stage_pool) == pool].sum(axis=1) for pool in range(self.num_pools)], 1)
        fastest = np.argsort(self.layer_s, axis=1)
        rooms, layer_s = (np.take_along_axis(column, fastest, axis=1) for column in (rooms, self.layer_s))
        before = np.cumsum(rooms, axis=1) - rooms
        held = np.clip(self.num_layers - before, 0, rooms)
        return np.asarray(self.fixed_s.sum(axis=1) + (held * layer_s).sum(axis=1))

    @property
    def num_pools(self) -> int:
        return max(self.stage_pool) + 1

    @property
    def _shape(self) -> PipelineShape:
        return PipelineShape(
            num_stages=len(self.stage_pool), num_microbatches=self.num_microbatches, interleave=self.plan.interleave
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageLowerBounds:
    """Plans of one pipeline, every stage on every pool: what goes for any order of the pools."""

    context: PlanContext
    rows: IntArray
    plan: Plan  # one of them
    tables_s: tuple[FloatArray, ...]  # by pool: plans by stages by layers
    fixed_s: tuple[FloatArray, ...]  # by pool: plans by stages
    layer_s: FloatArray
    per_step_s: FloatArray

    def at(self, place: int) -> StageLowerBounds:
        """One of the plans."""
        row = slice(place, place + 1)
        return replace(
            self,
            rows=self.rows[row],
            tables_s=tuple(table_s[row] for table_s in self.tables_s),
            fixed_s=tuple(fixed_s[row] for fixed_s in self.fixed_s),
            layer_s=self.layer_s[row],
            per_step_s=self.per_step_s[row],
        )

    def on(self, stage_pool: tuple[int, ...]) -> PoolLowerBounds:
        """With stages on the given pools."""
        paid_s, lag_s = _handed_s(self.context, self.rows, self.plan, stage_pool)
        table_s, fixed_s = np.empty_like(self.tables_s[0]), np.empty_like(self.fixed_s[0])
        for pool in range(len(self.tables_s)):
            stages = np.flatnonzero(np.array(stage_pool) == pool)
            table_s[:, stages], fixed_s[:, stages] = self.tables_s[pool][:, stages], self.fixed_s[pool][:, stages]
        return PoolLowerBounds(
            plan=self.plan,
            stage_pool=stage_pool,
            num_layers=self.context.graph.num_layers,
            num_microbatches=self.context.num_microbatches[self.rows],
            table_s=table_s + paid_s[:, :, None],
            fixed_s=fixed_s + paid_s,
            layer_s=self.layer_s,
            lag_s=lag_s,
            per_step_s=self.per_step_s,
        )


def stage_lower_bounds(
    context: PlanContext,
    rows: IntArray,
    policies: tuple[int, ...],
    block_bounds: tuple[BlockLowerBounds, ...],
    table: MemoryTable,
) -> StageLowerBounds:
    """Of the plans in `rows`, which share a pipeline; `block_bounds` are by pool."""
    plan, [layer] = context.plans.plan(int(rows[0])), layer_blocks(context.graph)
    most = context.graph.num_layers - (plan.pipeline_parallel - 1) * plan.interleave
    variants = [pool.table.comm_variant_of[rows] for pool in context.pools]
    layer_s = [
        bounds_of_pool.time_s[layer][s[:, None], np.array(policies)]
        for bounds_of_pool, s in zip(block_bounds, variants, strict=True)
    ]
    fixed_s = tuple(
        _outer_s(context, plan, bounds_of_pool, s, policies)
        for bounds_of_pool, s in zip(block_bounds, variants, strict=True)
    )
    return StageLowerBounds(
        context=context,
        rows=rows,
        plan=plan,
        tables_s=tuple(
            stage_times_s(pool, table, rows, each_s, outer_s, policies, most)
            for pool, each_s, outer_s in zip(context.pools, layer_s, fixed_s, strict=True)
        ),
        fixed_s=fixed_s,
        layer_s=np.stack([each_s.min(axis=1) for each_s in layer_s], axis=1),
        per_step_s=_per_step_s(context, rows, plan, layer),
    )


def _handed_s(
    context: PlanContext, rows: IntArray, plan: Plan, stage_pool: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """What each stage spends on hand-overs, and the shortest that is waited for instead."""
    on, back = sending_kinds(stage_pool, goes_round=schedule_name(plan) == "interleaved")
    transfer_s, is_beside = context.transfer_s[context.transfer_of[rows]], context.plans.overlaps("pipeline")[rows]
    paid_s = plan.interleave * (transfer_s[:, on] + transfer_s[:, back])
    used = np.flatnonzero(hops_before(len(stage_pool), stage_pool)[-1])
    return np.where(is_beside[:, None], 0.0, paid_s), np.where(is_beside, transfer_s[:, used].min(axis=1), 0.0)


def _outer_s(
    context: PlanContext, plan: Plan, bounds_of_pool: BlockLowerBounds, variant: IntArray, policies: tuple[int, ...]
) -> FloatArray:
    """What each stage takes beside its layers, if it is on the pool of `bounds_of_pool`: plans by stages."""
    counts = stage_counts(context.graph, plan)
    outer_s = -bounds_of_pool.call_s[variant][:, None]
    for index, block in enumerate(context.graph.blocks):
        if not block.is_layer:
            outer_s = outer_s + counts[index] * bounds_of_pool.least_s(index, policies)[variant][:, None]
    return np.asarray(outer_s)


def _per_step_s(context: PlanContext, rows: IntArray, plan: Plan, layer: int) -> FloatArray:
    """Exchange and update of a stage with a full share of the layers, on whichever pool that takes least."""
    share = -(-context.graph.num_layers // plan.pipeline_parallel)
    run = StageGroup(first_stage=1, num_stages=1, spans=(LayerSpan(block=layer, count=share),))
    found = []
    for pool in context.pools:
        paid_frac = 1 - (1 - pool.compute_slowdown_frac) * context.plans.overlaps("data")[rows]
        held = held_elements((run,), context.graph, pool.table, rows)
        link_frac = pool.cluster.chip.calibration.link_frac
        once = gradient_sync(
            held, context.plans.zero_stage[rows], pool.places.at(rows), context.precision, link_frac, "least"
        )
        update_s = share * cost_of(pool.table.updates[layer]).compute_s[pool.table.update_variant_of[rows]]
        found.append(paid_frac * (once.reduce_s + once.gather_s)[:, 0] + update_s)
    return np.asarray(np.min(found, axis=0))
