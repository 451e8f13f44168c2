"""The best plans for a cluster of several pools: degrees, the order of the pools, and layers by stage, with a gap.

The space: every combination of degrees whose stages fill each pool in whole numbers; the pools one after the other
along the pipeline, in any order; a layer or more in every chunk, and on every stage the recompute that makes it fastest
among all that its memory allows. A base plan leaves layers and recompute open. It is bounded away
(`pool_lower_bounds`), or
closed: every cut whose slowest stage leaves room below the best plan was looked at; or it stays open, and the gap is
what the least bound of these leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import permutations

import numpy as np

from dovetail.errors import NotModelled
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.parallel.memory import memory_table
from dovetail.parallel.placement import NOWHERE
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, Plans, joined
from dovetail.parallel.pools import framework_of
from dovetail.parallel.sharding import shard_plans
from dovetail.search.objectives import Figures, Objective
from dovetail.search.planners.bounds.block_lower_bounds import block_lower_bounds
from dovetail.search.planners.bounds.pool_lower_bounds import stage_lower_bounds
from dovetail.search.planners.bounds.step_lower_bounds import layer_blocks
from dovetail.search.planners.candidates import DEGREES, Candidate, Found, Tally, best_of
from dovetail.search.planners.cuts.stage_options import check_depth, with_policies
from dovetail.search.planners.even_plans import PlanProgress
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.search.planners.planner import NUM_REFINED, PlanSearchResult, Proof
from dovetail.search.planners.pool_refine import PoolJob, repartitioned
from dovetail.step.assembly import by_pipeline
from dovetail.step.memory_needs import need_bytes
from dovetail.step.plan_table import plan_context, pool_places
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.workload import Workload

MAX_POOLS = 4  # whose orders are tried: 24
TABLE_ELEMENTS = 2**20  # style: a count; of one table of times, so that tables stay small
PLAN_BATCH = 32  # cut again together, before the next look at the best
OPTIONS_AT_ONCE = 2**17  # style: a count; of their stages by layers, so that the options of deep models stay small
SLACK = 1.15  # of the least pace: at first, stages are asked about as many layers as they then can hold
# Base plans done, of how many, the plans found so far, and the seconds that none is below.
ProgressReport = Callable[[int, int, list[Found], float], None]
NUM_FIRST, NUM_OF_KIND = 2, 18  # base plans of each combination of degrees shown that are cut at first, and in all


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolBasePlans:
    """Base plans, the pools of their stages, and a lower bound on the step of each."""

    plans: Plans
    stage_pools: tuple[tuple[int, ...], ...]
    bounds_s: FloatArray

    def at(self, rows: IntArray) -> PoolBasePlans:
        stage_pools = tuple(self.stage_pools[int(row)] for row in rows)
        return PoolBasePlans(plans=self.plans.at(rows), stage_pools=stage_pools, bounds_s=self.bounds_s[rows])


def search_plans_on_pools(
    workload: Workload,
    cluster: HeterogeneousCluster,
    space: PlanSpace,
    objective: Objective,
    *,
    num_best: int,
    cluster_usd: float,
    progress: PlanProgress,
    num_refined: int = NUM_REFINED,
) -> PlanSearchResult:
    """The `num_best` best plans of `space`, and how far from the best possible the first may be.

    Of base plans that may beat the best, `num_refined` at the most are cut again.
    """
    graph = workload.training_graph()
    _check(graph, cluster, space, objective)
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    job = PoolJob(graph=graph, cluster=cluster, precision=workload.precision, policies=policies)
    bases, tally = _bounded(job, space, progress)
    if not bases:
        return PlanSearchResult(best=(), tally=tally, proof=Proof(is_even_only=False, bound_s=np.inf))

    def report_progress(num_done: int, num_all: int, found: list[Found], bound_s: float) -> None:
        best = sorted(found, key=lambda each: each.step_s)[:1]
        candidates = tuple(_candidate(each, graph, cluster, objective, cluster_usd) for each in best)
        progress(num_done, num_all, tally, cluster_usd * _best_s(found), bound_s, candidates)

    found, proof = _searched(job, _joined(bases), num_best, num_refined, report_progress)
    scored = tuple(_candidate(each, graph, cluster, objective, cluster_usd) for each in found)
    return PlanSearchResult(best=best_of(scored, num_best), tally=tally, proof=proof)


def _check(graph: Graph, cluster: HeterogeneousCluster, space: PlanSpace, objective: Objective) -> None:
    """Raises where the space is one that this search cannot have."""
    where = "clusters of several pools"
    if objective.aspect != "time":
        message = f"for {where} plans are found by time alone"
        raise NotModelled(f"{message}; use time, tokens/s or tokens/s/$", "--objective")
    if len(layer_blocks(graph)) != 1:
        raise NotModelled(f"plans for {where} are found where all layers are equal; write a plan and simulate it")
    check_depth(graph, "write a plan and simulate it")
    if len(cluster.pools) > MAX_POOLS:
        raise NotModelled(f"plans are found for up to {MAX_POOLS} pools; got {len(cluster.pools)}; join some", "pools")
    if "dualpipe" in space.schedule:
        raise NotModelled(f"dualpipe is not modelled for {where}; leave it out of schedule", "schedule")
    if any(space.offload_optimizer) or any(space.offload_activations_frac):
        raise NotModelled(f"offload is not modelled for {where}; leave it out", "offload_optimizer")


def _bounded(job: PoolJob, space: PlanSpace, progress: PlanProgress) -> tuple[list[PoolBasePlans], Tally]:
    """Base plans of `space` with their bounds, and what was met on the way."""
    bases: list[PoolBasePlans] = []
    tally = Tally()
    first, framework = replace(space, recompute=space.recompute[:1]), framework_of(job.cluster)
    groups = _by_length(batches(first, job.graph, job.cluster.num_devices, framework))
    for num_done, plans in enumerate(groups, start=1):
        placed = _placed(plans, job.cluster)
        if len(placed):
            bases += list(_bases(job, placed))
            tally = tally.met(len(placed)).with_need(*_needs(job, placed))
        progress(num_done, len(groups), tally, np.inf)
    return bases, tally


def _by_length(batches_of_plans: Iterator[Plans]) -> list[Plans]:
    """Plans with as many stages together: their stages take as many devices."""
    groups: dict[int, list[Plans]] = {}
    for plans in batches_of_plans:
        groups.setdefault(int(plans.pipeline_parallel[0]), []).append(plans)
    return [joined(same_length) for same_length in groups.values()]


def _placed(plans: Plans, cluster: HeterogeneousCluster) -> Plans:
    """Those of `plans`, all with as many stages, that fill every pool and nest in its network."""
    if any(pool.num_devices % _stage_devices(plans) for pool in cluster.pools):
        return plans.at(np.empty(0, dtype=np.int64))
    is_placed = [places.group_of["tensor"] != NOWHERE for places in pool_places(plans, cluster)]
    return plans.at(np.flatnonzero(np.all(is_placed, axis=0)))


def _stage_devices(plans: Plans) -> int:
    return int(plans.num_devices[0] // plans.pipeline_parallel[0])


def _needs(job: PoolJob, plans: Plans) -> tuple[Plans, FloatArray]:
    """`plans` under each policy, with layers spread evenly, and what the fullest device of each needs."""
    all_policies = with_policies(plans, job.policies)
    return all_policies, need_bytes(shard_plans(job.graph, all_policies), job.precision)


def _bases(job: PoolJob, plans: Plans) -> Iterator[PoolBasePlans]:
    """The base plans of `plans`, all with as many stages, with the pools in any order; none whose layers do not fit."""
    counts = [pool.num_devices // _stage_devices(plans) for pool in job.cluster.pools]
    context = plan_context(job.graph, plans, job.cluster, job.precision)
    block_bounds = tuple(block_lower_bounds(job.graph, pool.table) for pool in context.pools)
    table = memory_table(context.sharded, job.precision)
    for group in by_pipeline(job.graph, plans):
        each = max(1, TABLE_ELEMENTS // (group.num_stages * job.graph.num_layers))
        for start in range(0, len(group.rows), each):
            rows = group.rows[start : start + each]
            on = stage_lower_bounds(context, rows, job.policies, block_bounds, table).on
            for order in permutations(range(len(counts))):
                stage_pool = tuple(pool for pool in order for _ in range(counts[pool]))
                bounds = on(stage_pool)
                bounds_s = bounds.bounds_s(bounds.table_s)
                fits = np.flatnonzero(np.isfinite(bounds_s))
                yield PoolBasePlans(
                    plans=plans.at(rows[fits]), stage_pools=(stage_pool,) * len(fits), bounds_s=bounds_s[fits]
                )


def _joined(bases: list[PoolBasePlans]) -> PoolBasePlans:
    return PoolBasePlans(
        plans=joined([each.plans for each in bases]),
        stage_pools=tuple(stage_pool for each in bases for stage_pool in each.stage_pools),
        bounds_s=np.concatenate([each.bounds_s for each in bases]),
    )


def _searched(
    job: PoolJob, bases: PoolBasePlans, num_best: int, num_most: int, report_progress: ProgressReport
) -> tuple[list[Found], Proof]:
    """Plans found, and what is proven: first some of each of the likeliest degrees, then all that may be better."""
    order = np.lexsort((np.arange(len(bases.plans)), bases.bounds_s))
    found = _first(job, bases, order, num_best, num_most, report_progress)
    best_s = _best_s(found)
    lower_bounds_s, num_done = bases.bounds_s.copy(), 0
    while found and num_done < min(num_most, len(order)) and lower_bounds_s[order[num_done]] < best_s:
        rows = _together(job, bases, order[num_done:num_most])
        rows = rows[lower_bounds_s[rows] < best_s]
        repartition = repartitioned(job, *_of(bases, rows), best_s)
        found += repartition.found
        lower_bounds_s[rows] = np.maximum(lower_bounds_s[rows], repartition.bounds_s)
        best_s = min([best_s, *(each.step_s for each in repartition.found)])
        num_done += len(rows)
        num_all = min(num_most, int((lower_bounds_s[order[num_done:]] < best_s).sum()) + num_done)
        report_progress(num_done, num_all, found, float(min(lower_bounds_s.min(), best_s)))
    open_s, num_away = lower_bounds_s[lower_bounds_s < best_s], int((bases.bounds_s >= best_s).sum())
    return found, Proof(
        is_even_only=False,
        bound_s=float(min(open_s.min(initial=np.inf), best_s)) if found else np.inf,  # nothing fits, nothing to bound
        num_bases=len(order),
        num_pruned=num_away,
        num_closed=len(order) - num_away - len(open_s),
        num_open=len(open_s),
        num_refined=num_done,
    )


def _first(
    job: PoolJob, bases: PoolBasePlans, order: IntArray, num_best: int, num_most: int, report_progress: ProgressReport
) -> list[Found]:
    """Plans for others to be held against."""

    def report_first(found: list[Found]) -> None:
        num_all = min(num_most, int((bases.bounds_s < _best_s(found)).sum()))
        report_progress(0, num_all, found, float(bases.bounds_s[order[0]]))

    found = _proposed(job, bases, order, num_best, report_first)
    for rows in _batches(job, bases, order[:num_most]):  # memory may ask for stages that are far from balanced
        if found:
            break
        found += repartitioned(job, *_of(bases, rows), np.inf).found
        report_first(found)
    return found


def _of(bases: PoolBasePlans, rows: IntArray) -> tuple[Plans, tuple[tuple[int, ...], ...]]:
    chosen = bases.at(rows)
    return chosen.plans, chosen.stage_pools


def _batches(job: PoolJob, bases: PoolBasePlans, rows: IntArray) -> Iterator[IntArray]:
    while len(rows):
        batch = _together(job, bases, rows)
        yield batch
        rows = rows[len(batch) :]


def _together(job: PoolJob, bases: PoolBasePlans, rows: IntArray) -> IntArray:
    """The first of `rows`: as many as are cut again at once."""
    batch = rows[:PLAN_BATCH]
    num_options = np.cumsum(bases.plans.pipeline_parallel[batch]) * job.graph.num_layers
    return batch[: max(1, int((num_options <= OPTIONS_AT_ONCE).sum()))]


def _best_s(found: list[Found]) -> float:
    return min((each.step_s for each in found), default=np.inf)


def _proposed(
    job: PoolJob, bases: PoolBasePlans, order: IntArray, num_kinds: int, report_progress: Callable[[list[Found]], None]
) -> list[Found]:
    """Plans of the degrees with the least bounds, a few base plans of each: for others to be held against."""
    kinds = _likeliest(bases.plans, order, num_kinds)
    found: list[Found] = []
    first = [row for rows in kinds.values() for row in rows[:NUM_FIRST]]
    for batch in _batches(job, bases, np.array(first, dtype=np.int64)):
        found += repartitioned(job, *_of(bases, batch), np.inf, slack=SLACK).found
        report_progress(found)
    for kind, rows in kinds.items():
        best_s = min((each.step_s for each in found if _kind(each.plan) == kind), default=np.inf)
        rest = np.array([row for row in rows[NUM_FIRST:] if bases.bounds_s[row] < best_s], dtype=np.int64)
        for batch in _batches(job, bases, rest):
            found += repartitioned(job, *_of(bases, batch), best_s, slack=SLACK).found
            report_progress(found)
    return found


def _likeliest(plans: Plans, order: IntArray, num_kinds: int) -> dict[tuple[int, ...], list[int]]:
    """The degrees with the least bounds, and the first base plans of each."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    columns = np.stack([getattr(plans, name) for name in DEGREES], axis=1)[order]
    for row, degrees in zip(order.tolist(), columns.tolist(), strict=True):
        kind = tuple(degrees)
        if kind not in kinds and len(kinds) == num_kinds:
            continue
        if len(kinds.setdefault(kind, [])) < NUM_OF_KIND:
            kinds[kind].append(row)
    return kinds


def _kind(plan: Plan) -> tuple[int, ...]:
    return tuple(int(getattr(plan, name)) for name in DEGREES)


def _candidate(
    found: Found, graph: Graph, cluster: HeterogeneousCluster, objective: Objective, cluster_usd: float
) -> Candidate:
    figures = Figures(
        step_s=found.step_s,
        energy_j=found.energy_j,
        need_bytes=found.need_bytes,
        limit_bytes=max(pool.usable_bytes for pool in cluster.pools),
        num_tokens=graph.num_tokens,
        cluster_usd=cluster_usd,
    )
    values = {field.name: getattr(found, field.name) for field in fields(Found)}
    score, figure = float(objective.score(figures)), float(objective.figure(figures))
    return Candidate(**values, score=score, figure=figure)
