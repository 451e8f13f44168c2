"""Base plans on a cluster of several pools with their layers and recompute set by stage: the best cut of each, proven.

What a stage is asked about follows from bounds: at the pace that the best plan so far leaves, no stage can hold more
layers than its low says, and none fewer than the others leave it. What was not asked about is in no better cut.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.parallel.layout import runs_of
from dovetail.parallel.memory import memory_table
from dovetail.parallel.plan import Plans
from dovetail.search.planners.bounds.block_lower_bounds import block_lower_bounds
from dovetail.search.planners.bounds.pool_lower_bounds import PoolLowerBounds, stage_lower_bounds
from dovetail.search.planners.bounds.step_lower_bounds import ROUNDING_TOLERANCE
from dovetail.search.planners.candidates import Found
from dovetail.search.planners.cuts.pool_cuts import PoolTable, cuts_within, plan_of, pool_table, proposed
from dovetail.search.planners.cuts.stage_options import StageOptions, stage_options, with_policies
from dovetail.search.planners.least_pace import least_pace_s
from dovetail.search.planners.mixes import StageLayers
from dovetail.search.planners.refine import MAX_EVALUATED
from dovetail.step.assembly import Assembly, by_pipeline, by_stages, stage_shape_group
from dovetail.step.plan_table import PlanContext, plan_context
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

_Range = tuple[IntArray, IntArray]  # fewest and most layers of each stage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolJob:
    """What plans are for."""

    graph: Graph
    cluster: HeterogeneousCluster
    precision: Precision
    policies: tuple[int, ...]  # recompute that a stage may use


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repartitioned:
    """Plans found, and of each base plan a time that none of its plans is below; no less than the best where closed."""

    found: list[Found]
    bounds_s: FloatArray


def repartitioned(
    job: PoolJob, plans: Plans, stage_pools: tuple[tuple[int, ...], ...], best_s: float, slack: float = np.inf
) -> Repartitioned:
    """The best plans found of base plans; against an infinite `best_s`, only proposed ones.

    Those are looked for at up to `slack` times the least pace.
    """
    context = plan_context(job.graph, with_policies(plans, job.policies), job.cluster, job.precision)
    bounds_of_bases = _lower_bounds(job, context, plans, stage_pools)
    ranges = [_layer_ranges(bounds, best_s, slack) for bounds in bounds_of_bases]
    options = _options(context, stage_pools, ranges, job.policies)
    found: list[Found] = []
    bounds_s = np.zeros(len(plans))
    for index, (bounds, layer_range) in enumerate(zip(bounds_of_bases, ranges, strict=True)):
        row = index * len(job.policies)
        table = pool_table(
            replace(plans.plan(index), stage_pools=stage_pools[index]),
            options.at(np.flatnonzero(options.plan == index)),
            job.graph.num_layers,
            int(bounds.num_microbatches[0]),
            context.transfer_s[context.transfer_of[row]],
        )
        found_here, bounds_s[index] = _closed(context, row, table, bounds, layer_range, best_s)
        found += found_here
        best_s = min([best_s, *(one.step_s for one in found_here)]) if np.isfinite(best_s) else best_s
    return Repartitioned(found=found, bounds_s=bounds_s)


def _lower_bounds(
    job: PoolJob, context: PlanContext, plans: Plans, stage_pools: tuple[tuple[int, ...], ...]
) -> list[PoolLowerBounds]:
    """Of each base plan; `context` has them under each policy."""
    block_bounds = tuple(block_lower_bounds(job.graph, pool.table) for pool in context.pools)
    memory = memory_table(context.sharded, job.precision)
    found: dict[int, PoolLowerBounds] = {}
    for group in by_pipeline(job.graph, plans):
        stage_bounds = stage_lower_bounds(context, group.rows * len(job.policies), job.policies, block_bounds, memory)
        found |= {int(row): stage_bounds.at(place).on(stage_pools[row]) for place, row in enumerate(group.rows)}
    return [found[index] for index in range(len(plans))]


def _layer_ranges(bounds: PoolLowerBounds, best_s: float, slack: float) -> _Range:
    """Layers of each stage that a step below `best_s` may have: none where that cannot be."""
    pace_s = (best_s - bounds.per_step_s[0]) / bounds.num_microbatches[0]
    if not np.isfinite(best_s):
        pace_s = slack * least_pace_s(bounds.cut, bounds.table_s)[0]
    most = (np.isfinite(bounds.table_s[0, :, 1:]) & (bounds.table_s[0, :, 1:] <= pace_s)).sum(axis=1)
    fewest = np.maximum(bounds.plan.interleave, bounds.num_layers - (most.sum() - most))
    return fewest, most


def _options(
    context: PlanContext, stage_pools: tuple[tuple[int, ...], ...], ranges: list[_Range], policies: tuple[int, ...]
) -> StageOptions:
    """What stages can be, each on its pool."""

    def wanted(pool: int, plan: int, stage: int) -> StageLayers:
        fewest, most = ranges[plan]
        is_here = stage_pools[plan][stage] == pool
        counts = np.arange(fewest[stage], most[stage] + 1 if is_here else fewest[stage])[:, None]
        return StageLayers(counts=counts, start=np.zeros(len(counts), dtype=np.int64))

    found = [stage_options(pool, policies, partial(wanted, index)) for index, pool in enumerate(context.pools)]
    names = [field.name for field in fields(StageOptions)]
    return StageOptions(
        **{name: np.concatenate([getattr(stage_ranges, name) for stage_ranges in found]) for name in names}
    )


def _closed(
    context: PlanContext, row: int, table: PoolTable, bounds: PoolLowerBounds, layer_range: _Range, best_s: float
) -> tuple[list[Found], float]:
    """The plans found, and a time that no plan of the base plan is below."""
    per_step_s, found = float(bounds.per_step_s[0]), []
    cuts = cuts_within(table, (best_s - per_step_s) / table.num_microbatches) if np.isfinite(best_s) else None
    if cuts is None:
        found = [
            _found(context, row, table, layers) for layers, step_s in proposed(table) if step_s + per_step_s < best_s
        ]
        if not np.isfinite(best_s):
            return found, 0.0
        best_s = min([best_s, *(each.step_s for each in found)])  # a better plan leaves fewer cuts that could win
        cuts = cuts_within(table, (best_s - per_step_s) / table.num_microbatches)
    if cuts is None:
        return found, min(best_s, float(bounds.bounds_s(_known_s(table, bounds, layer_range))[0]))
    more, bound_s = _evaluated(context, row, table, cuts, per_step_s, best_s)
    return [*found, *more], bound_s


def _evaluated(
    context: PlanContext, row: int, table: PoolTable, cuts: IntArray, per_step_s: float, best_s: float
) -> tuple[list[Found], float]:
    """Those of `cuts` that may be faster than the best, and a time that none of them is below."""
    found: list[Found] = []
    steps_s = table.steps_s(cuts) + per_step_s if len(cuts) else np.empty(0)
    for place, index in enumerate(np.argsort(steps_s, kind="stable")):
        bound_s = float(steps_s[index]) * (1 - ROUNDING_TOLERANCE)
        if bound_s >= best_s:
            break
        if place == MAX_EVALUATED:
            return found, bound_s
        found.append(_found(context, row, table, cuts[index]))
        best_s = min(best_s, found[-1].step_s)
    return found, best_s


def _known_s(table: PoolTable, bounds: PoolLowerBounds, layer_range: _Range) -> FloatArray:
    """What stages take at least by layers: as they are where that was asked, else their lows; growing with layers."""
    layers = np.arange(bounds.table_s.shape[2])
    is_asked = (layers >= layer_range[0][:, None]) & (layers <= layer_range[1][:, None])
    known_s = np.where(is_asked, table.time_s[:, : len(layers)], bounds.table_s[0])
    return np.minimum.accumulate(known_s[:, ::-1], axis=1)[None, :, ::-1]


def _found(context: PlanContext, row: int, table: PoolTable, layers: IntArray) -> Found:
    """The plan with these layers by stage, evaluated whole; what it needs is on the stage with the least to spare."""
    plan = plan_of(table, layers)
    group = stage_shape_group(context.plans, np.array([row]), runs_of(context.graph, plan))
    [(_, columns)] = by_stages(context, [group])
    assembly = Assembly(context, group, columns)
    need_bytes = table.options.need_bytes[table.row[np.arange(len(layers)), layers]]
    limits_bytes = np.array([context.pools[pool].cluster.usable_bytes for pool in plan.stage_pools])
    return Found(
        plan=plan,
        step_s=float(assembly.step_s[0]),
        energy_j=float(assembly.energy_j()[0]),
        need_bytes=float(need_bytes[(need_bytes - limits_bytes).argmax()]),
    )
