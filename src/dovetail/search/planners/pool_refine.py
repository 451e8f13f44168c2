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
from dovetail.step.assembly import Assembly, alike, by_pipeline, by_stages
from dovetail.step.plan_table import PlanContext, shared
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
    every = shared(job.graph, with_policies(plans, job.policies), job.cluster, job.precision)
    each = _lower_bounds(job, every, plans, stage_pools)
    ranges = [_layer_ranges(low, best_s, slack) for low in each]
    options = _options(every, stage_pools, ranges, job.policies)
    found: list[Found] = []
    bounds_s = np.zeros(len(plans))
    for index, (low, asked) in enumerate(zip(each, ranges, strict=True)):
        row = index * len(job.policies)
        table = pool_table(
            replace(plans.plan(index), stage_pools=stage_pools[index]),
            options.at(np.flatnonzero(options.plan == index)),
            job.graph.num_layers,
            int(low.num_microbatches[0]),
            every.transfer_s[every.transfer_of[row]],
        )
        made, bounds_s[index] = _closed(every, row, table, low, asked, best_s)
        found += made
        best_s = min([best_s, *(one.step_s for one in made)]) if np.isfinite(best_s) else best_s
    return Repartitioned(found=found, bounds_s=bounds_s)


def _lower_bounds(
    job: PoolJob, every: PlanContext, plans: Plans, stage_pools: tuple[tuple[int, ...], ...]
) -> list[PoolLowerBounds]:
    """Of each base plan; `every` has them under each policy."""
    lows = tuple(block_lower_bounds(job.graph, pool.table) for pool in every.pools)
    memory = memory_table(every.sharded, job.precision)
    found: dict[int, PoolLowerBounds] = {}
    for same in by_pipeline(job.graph, plans):
        some = stage_lower_bounds(every, same.rows * len(job.policies), job.policies, lows, memory)
        found |= {int(row): some.at(place).on(stage_pools[row]) for place, row in enumerate(same.rows)}
    return [found[index] for index in range(len(plans))]


def _layer_ranges(low: PoolLowerBounds, best_s: float, slack: float) -> _Range:
    """Layers of each stage that a step below `best_s` may have: none where that cannot be."""
    pace_s = (best_s - low.per_step_s[0]) / low.num_microbatches[0]
    if not np.isfinite(best_s):
        pace_s = slack * least_pace_s(low.cut, low.table_s)[0]
    most = (np.isfinite(low.table_s[0, :, 1:]) & (low.table_s[0, :, 1:] <= pace_s)).sum(axis=1)
    fewest = np.maximum(low.plan.interleave, low.num_layers - (most.sum() - most))
    return fewest, most


def _options(
    every: PlanContext, stage_pools: tuple[tuple[int, ...], ...], ranges: list[_Range], policies: tuple[int, ...]
) -> StageOptions:
    """What stages can be, each on its pool."""

    def wanted(pool: int, plan: int, stage: int) -> StageLayers:
        fewest, most = ranges[plan]
        is_here = stage_pools[plan][stage] == pool
        counts = np.arange(fewest[stage], most[stage] + 1 if is_here else fewest[stage])[:, None]
        return StageLayers(counts=counts, start=np.zeros(len(counts), dtype=np.int64))

    found = [stage_options(pool, policies, partial(wanted, index)) for index, pool in enumerate(every.pools)]
    names = [field.name for field in fields(StageOptions)]
    return StageOptions(**{name: np.concatenate([getattr(some, name) for some in found]) for name in names})


def _closed(
    every: PlanContext, row: int, table: PoolTable, low: PoolLowerBounds, asked: _Range, best_s: float
) -> tuple[list[Found], float]:
    """The plans found, and a time that no plan of the base plan is below."""
    per_step_s, found = float(low.per_step_s[0]), []
    cuts = cuts_within(table, (best_s - per_step_s) / table.num_microbatches) if np.isfinite(best_s) else None
    if cuts is None:
        found = [
            _found(every, row, table, layers) for layers, step_s in proposed(table) if step_s + per_step_s < best_s
        ]
        if not np.isfinite(best_s):
            return found, 0.0
        best_s = min([best_s, *(each.step_s for each in found)])  # a better plan leaves fewer cuts that could win
        cuts = cuts_within(table, (best_s - per_step_s) / table.num_microbatches)
    if cuts is None:
        return found, min(best_s, float(low.bounds_s(_known_s(table, low, asked))[0]))
    more, bound_s = _evaluated(every, row, table, cuts, per_step_s, best_s)
    return [*found, *more], bound_s


def _evaluated(
    every: PlanContext, row: int, table: PoolTable, cuts: IntArray, per_step_s: float, best_s: float
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
        found.append(_found(every, row, table, cuts[index]))
        best_s = min(best_s, found[-1].step_s)
    return found, best_s


def _known_s(table: PoolTable, low: PoolLowerBounds, asked: _Range) -> FloatArray:
    """What stages take at least by layers: as they are where that was asked, else their lows; growing with layers."""
    layers = np.arange(low.table_s.shape[2])
    is_asked = (layers >= asked[0][:, None]) & (layers <= asked[1][:, None])
    known_s = np.where(is_asked, table.time_s[:, : len(layers)], low.table_s[0])
    return np.minimum.accumulate(known_s[:, ::-1], axis=1)[None, :, ::-1]


def _found(every: PlanContext, row: int, table: PoolTable, layers: IntArray) -> Found:
    """The plan with these layers by stage, evaluated whole; what it needs is on the stage with the least to spare."""
    plan = plan_of(table, layers)
    same = alike(every.plans, np.array([row]), runs_of(every.graph, plan))
    [(_, columns)] = by_stages(every, [same])
    made = Assembly(every, same, columns)
    need_bytes = table.options.need_bytes[table.row[np.arange(len(layers)), layers]]
    limits_bytes = np.array([every.pools[pool].cluster.usable_bytes for pool in plan.stage_pools])
    return Found(
        plan=plan,
        step_s=float(made.step_s[0]),
        energy_j=float(made.energy_j()[0]),
        need_bytes=float(need_bytes[(need_bytes - limits_bytes).argmax()]),
    )
