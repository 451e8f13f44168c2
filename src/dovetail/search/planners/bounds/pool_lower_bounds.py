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
from dovetail.step.stage_columns import exchange, held_elements
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
        for here, after in zip(SLOWER, (*SLOWER[1:], np.inf), strict=True):
            sum_s = self._sum_s(table_s, pace_s * after if np.isfinite(after) else np.full_like(pace_s, np.inf))
            lower_bounds_s.append(
                pipeline_lower_bound_s(schedule_name(self.plan), sum_s, here * pace_s, self.lag_s, self._shape)
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

    every: PlanContext
    rows: IntArray
    plan: Plan  # one of them
    tables_s: tuple[FloatArray, ...]  # by pool: plans by stages by layers
    fixed_s: tuple[FloatArray, ...]  # by pool: plans by stages
    layer_s: FloatArray
    per_step_s: FloatArray

    def at(self, place: int) -> StageLowerBounds:
        """One of the plans."""
        here = slice(place, place + 1)
        return replace(
            self,
            rows=self.rows[here],
            tables_s=tuple(table_s[here] for table_s in self.tables_s),
            fixed_s=tuple(fixed_s[here] for fixed_s in self.fixed_s),
            layer_s=self.layer_s[here],
            per_step_s=self.per_step_s[here],
        )

    def on(self, stage_pool: tuple[int, ...]) -> PoolLowerBounds:
        """With stages on the given pools."""
        paid_s, lag_s = _handed_s(self.every, self.rows, self.plan, stage_pool)
        table_s, fixed_s = np.empty_like(self.tables_s[0]), np.empty_like(self.fixed_s[0])
        for pool in range(len(self.tables_s)):
            here = np.flatnonzero(np.array(stage_pool) == pool)
            table_s[:, here], fixed_s[:, here] = self.tables_s[pool][:, here], self.fixed_s[pool][:, here]
        return PoolLowerBounds(
            plan=self.plan,
            stage_pool=stage_pool,
            num_layers=self.every.graph.num_layers,
            num_microbatches=self.every.num_microbatches[self.rows],
            table_s=table_s + paid_s[:, :, None],
            fixed_s=fixed_s + paid_s,
            layer_s=self.layer_s,
            lag_s=lag_s,
            per_step_s=self.per_step_s,
        )


def stage_lower_bounds(
    every: PlanContext,
    rows: IntArray,
    policies: tuple[int, ...],
    lows: tuple[BlockLowerBounds, ...],
    table: MemoryTable,
) -> StageLowerBounds:
    """Of the plans in `rows`, which share a pipeline; `lows` are by pool."""
    plan, [layer] = every.plans.plan(int(rows[0])), layer_blocks(every.graph)
    most = every.graph.num_layers - (plan.pipeline_parallel - 1) * plan.interleave
    senders = [pool.table.comm_variant_of[rows] for pool in every.pools]
    layer_s = [low.time_s[layer][s[:, None], np.array(policies)] for low, s in zip(lows, senders, strict=True)]
    fixed_s = tuple(_outer_s(every, plan, low, s, policies) for low, s in zip(lows, senders, strict=True))
    return StageLowerBounds(
        every=every,
        rows=rows,
        plan=plan,
        tables_s=tuple(
            stage_times_s(pool, table, rows, each_s, outer_s, policies, most)
            for pool, each_s, outer_s in zip(every.pools, layer_s, fixed_s, strict=True)
        ),
        fixed_s=fixed_s,
        layer_s=np.stack([each_s.min(axis=1) for each_s in layer_s], axis=1),
        per_step_s=_once_s(every, rows, plan, layer),
    )


def _handed_s(
    every: PlanContext, rows: IntArray, plan: Plan, stage_pool: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """What each stage spends on hand-overs, and the shortest that is waited for instead."""
    on, back = sending_kinds(stage_pool, goes_round=schedule_name(plan) == "interleaved")
    transfer_s, is_beside = every.transfer_s[every.transfer_of[rows]], every.plans.overlaps("pipeline")[rows]
    paid_s = plan.interleave * (transfer_s[:, on] + transfer_s[:, back])
    used = np.flatnonzero(hops_before(len(stage_pool), stage_pool)[-1])
    return np.where(is_beside[:, None], 0.0, paid_s), np.where(is_beside, transfer_s[:, used].min(axis=1), 0.0)


def _outer_s(
    every: PlanContext, plan: Plan, low: BlockLowerBounds, sender: IntArray, policies: tuple[int, ...]
) -> FloatArray:
    """What each stage takes beside its layers, if it is on the pool of `low`: plans by stages."""
    counts = stage_counts(every.graph, plan)
    outer_s = -low.call_s[sender][:, None]
    for index, block in enumerate(every.graph.blocks):
        if not block.is_layer:
            outer_s = outer_s + counts[index] * low.least_s(index, policies)[sender][:, None]
    return np.asarray(outer_s)


def _once_s(every: PlanContext, rows: IntArray, plan: Plan, layer: int) -> FloatArray:
    """Exchange and update of a stage with a full share of the layers, on whichever pool that takes least."""
    share = -(-every.graph.num_layers // plan.pipeline_parallel)
    run = StageGroup(first_stage=1, num_stages=1, spans=(LayerSpan(block=layer, count=share),))
    found = []
    for pool in every.pools:
        paid_frac = 1 - (1 - pool.compute_slowdown_frac) * every.plans.overlaps("data")[rows]
        held = held_elements((run,), every.graph, pool.table, rows)
        link_frac = pool.cluster.chip.calibration.link_frac
        once = exchange(held, every.plans.zero_stage[rows], pool.places.at(rows), every.precision, link_frac)
        update_s = share * cost_of(pool.table.updates[layer]).compute_s[pool.table.update_variant_of[rows]]
        found.append(paid_frac * (once.reduce_s + once.gather_s)[:, 0] + update_s)
    return np.asarray(np.min(found, axis=0))
