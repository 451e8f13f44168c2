"""The best plans that a training framework runs as they are: its rules as columns, its recompute as it has it.

Plans of even stages are bounded and evaluated as in `even_plans`, under the framework's rules. Of the base plans that
may still be faster, full recompute of the fewest layers that fit is tried, where the framework has that. What is found
is handed to the framework's launcher, and only what it runs as it is counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import DovetailError
from dovetail.evaluate import Outcome, evaluate, memory_use, with_host
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.layout import layers_per_chunk, stage_counts
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, Plans
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard, shard_plans
from dovetail.search.objectives import Objective
from dovetail.search.planners.bases import BasePlans, BaseQueue
from dovetail.search.planners.bounds.step_lower_bounds import ROUNDING_TOLERANCE, layer_blocks
from dovetail.search.planners.candidates import Candidate, Found, Scoring, best_of, degrees_of, least_s
from dovetail.search.planners.cuts.stage_options import stage_options, with_policies
from dovetail.search.planners.even_plans import EvenPlans, EvenSearch, PlanProgress, PlanRules
from dovetail.search.planners.mixes import StageLayers
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, Proof
from dovetail.search.planners.refine import Job, assembly_by
from dovetail.step.memory_needs import need_bytes
from dovetail.step.plan_table import PlanContext, plan_context
from dovetail.step.step import step_times
from dovetail.workload.graph import FloatArray, Graph
from dovetail.workload.workload import Workload

NUM_PARTLY = 2_000  # base plans that are tried with recompute of some layers; some 5 ms each
PARTLY_AT_ONCE = 32  # before the next look at what they have to beat
NONE, FULL = RECOMPUTE_POLICIES.index("none"), RECOMPUTE_POLICIES.index("full")
TWO_STAGE_SCHEDULES = ("dualpipe", "zb-v")  # whose stages hold chunks from both ends
NUM_SPARE = 8  # plans beyond those wanted that are kept where a launcher refuses some


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableSpace:
    """What one framework can run of a space of plans.

    `workload` is as the framework trains it. `framework` names whose own buffers are counted. `rules` are those between
    choices, as columns. `as_run` gives the plan that runs for one; nothing where the framework refuses it.
    """

    workload: Workload
    space: PlanSpace
    framework: str
    rules: PlanRules
    as_run: Callable[[Plan], tuple[Plan, ...]]
    has_partial_recompute: bool


def search_runnable_plans(
    runnable: RunnableSpace,
    cluster: Cluster,
    objective: Objective,
    *,
    num_best: int,
    cluster_usd: float,
    progress: PlanProgress,
    limit_s: float = np.inf,
) -> PlanSearchResult:
    """The `num_best` best plans that the framework runs as they are, and what none of its even plans is faster than.

    By time, those that take `limit_s` or longer are not looked for.
    """
    workload, space = runnable.workload, runnable.space
    graph = workload.training_graph()
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    scoring = Scoring(objective=objective, cluster=cluster, num_tokens=graph.num_tokens, cluster_usd=cluster_usd)
    search = EvenSearch(
        job=Job(graph=graph, cluster=cluster, precision=workload.precision, policies=policies),
        space=space,
        scoring=scoring,
        num_best=num_best,
        progress=progress,
        rules=runnable.rules,
        framework=runnable.framework,
        limit_s=limit_s,
        queues_ranked=True,
    )
    is_bounded = objective.aspect == "time" and any(block.is_layer for block in graph.blocks)
    is_bounded &= not any(space.offload_activations_frac) and len(space.by_offload) == 1

    def evens(search: EvenSearch) -> EvenPlans:
        return search.best_first(has_queue=runnable.has_partial_recompute) if is_bounded else _all_evaluated(search)

    even = evens(search)
    ranked = tuple(_as_run(runnable, search, even.best))
    if ranked != even.best:  # the launcher refuses what its rules allow
        search = replace(search, num_best=num_best + NUM_SPARE)
        even = evens(search)
        ranked = tuple(_as_run(runnable, search, even.best))
    bound_s, num_partly, is_open = least_s(even.best), 0, False
    if is_bounded and even.queue.waiting:
        partly = _partly_recomputed(runnable, search, even.queue, ranked, num_best)
        ranked, bound_s, num_partly = partly.candidates, min(bound_s, partly.bound_s), partly.num_tried
        is_open = bool(np.isfinite(partly.bound_s))
    best = best_of(ranked, num_best)
    is_timed = objective.aspect == "time"
    return PlanSearchResult(
        best=best,
        tally=even.tally,
        proof=Proof(
            is_even_only=True,
            bound_s=min(bound_s, least_s(best)) if is_timed and (best or np.isfinite(bound_s)) else 0.0,
            num_refined=num_partly,
            are_rows_proven=not is_open,
        ),
    )


def _all_evaluated(search: EvenSearch) -> EvenPlans:
    """Every even plan, one way of offloading after the other."""
    parts = [replace(search, space=subspace).all_evaluated() for subspace in search.space.by_offload]
    first = min(parts, key=lambda part: part.tally.least_bytes)
    tallies = [part.tally for part in parts]
    return replace(
        first,
        best=best_of(tuple(candidate for part in parts for candidate in part.best), search.num_best),
        tally=replace(
            first.tally,
            num_plans=sum(tally.num_plans for tally in tallies),
            num_evaluated=sum(tally.num_evaluated for tally in tallies),
            num_fitting=sum(tally.num_fitting for tally in tallies),
        ),
    )


def _as_run(runnable: RunnableSpace, search: EvenSearch, candidates: tuple[Candidate, ...]) -> Iterator[Candidate]:
    """Of `candidates` what runs for them: as they are, or evaluated again where the framework says less."""
    for candidate in candidates:
        for plan in runnable.as_run(candidate.plan):
            if plan == candidate.plan:
                yield candidate
            else:
                yield from _evaluated(runnable, search, plan)


def _evaluated(runnable: RunnableSpace, search: EvenSearch, plan: Plan) -> Iterator[Candidate]:
    """`plan` with its figures, where it can run and fits."""
    try:
        outcome = evaluate(runnable.workload, search.job.cluster, plan, has_changes=False)
    except DovetailError:  # what runs is not modelled, so nothing is known of it
        return
    if isinstance(outcome, Outcome):
        step, need_bytes = outcome.step, float(outcome.memory.need_bytes)
        found = Found(plan=plan, step_s=float(step.step_s), energy_j=float(step.energy_j), need_bytes=need_bytes)
        yield search.scoring.candidate(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partly:
    """Plans found, those given among them, what no plan of a base left open is below, and how many were tried."""

    candidates: tuple[Candidate, ...]
    bound_s: float
    num_tried: int


def _partly_recomputed(
    runnable: RunnableSpace, search: EvenSearch, queue: BaseQueue, ranked: tuple[Candidate, ...], num_best: int
) -> _Partly:
    """With full recompute of the fewest layers that fit, of every base plan that may then be the best of its degrees.

    A base plan is no faster with recompute of some layers than with none, whatever that needs: the bound that its time
    so far has to beat. Best bound first.
    """
    best = best_of(ranked, num_best)
    bases = _between(search, queue.below(min(search.limit_s, _last_s(best, num_best))))
    order, num_tried = np.argsort(bases.bounds_s, kind="stable"), 0
    for start in range(0, len(order), PARTLY_AT_ONCE):
        rows = order[start : start + PARTLY_AT_ONCE]
        limits_s = np.array([_to_beat_s(search, best, bases.plans.plan(int(row)), num_best) for row in rows])
        rows = rows[bases.bounds_s[rows] < limits_s]
        if num_tried + len(rows) > NUM_PARTLY:
            return _Partly(candidates=best, bound_s=float(bases.bounds_s[rows].min()), num_tried=num_tried)
        num_tried += len(rows)
        found: list[Candidate] = []
        for plan, step_s in _fewest_layers(search, bases.plans.at(rows)) if len(rows) else ():
            if step_s * (1 - ROUNDING_TOLERANCE) < _to_beat_s(search, best, plan, num_best):
                for run in runnable.as_run(plan):
                    found += _evaluated(runnable, search, run)
                best = best_of((*best, *found), search.num_best)
    return _Partly(candidates=best, bound_s=np.inf, num_tried=num_tried)


def _last_s(best: tuple[Candidate, ...], num_best: int) -> float:
    """What a plan has to take less than to be ranked."""
    return best[num_best - 1].step_s if len(best) >= num_best else np.inf


def _to_beat_s(search: EvenSearch, best: tuple[Candidate, ...], plan: Plan, num_best: int) -> float:
    """What a plan has to take less than to be ranked as the best of its degrees."""
    of_degrees = (one.step_s for one in best if degrees_of(one.plan) == degrees_of(plan))
    return min(search.limit_s, _last_s(best, num_best), next(of_degrees, np.inf))


def _between(search: EvenSearch, bases: BasePlans) -> BasePlans:
    """Base plans that fit with full recompute of all layers and not with none; bounded by what they take with none."""
    job = search.job
    plain, full = (with_policies(bases.plans, (policy,)) for policy in (NONE, FULL))

    def needs(plans: Plans) -> FloatArray:
        return need_bytes(shard_plans(job.graph, plans), job.precision)

    if not len(bases):
        return bases
    usable_bytes = job.cluster.usable_bytes
    is_between = needs(full) <= usable_bytes
    is_between &= needs(plain) > usable_bytes
    rows = np.flatnonzero(is_between)
    if not len(rows):
        return bases.at(rows)
    plain_s = step_times(job.graph, plain.at(rows), job.cluster, job.precision).step_s * (1 - ROUNDING_TOLERANCE)
    return replace(bases.at(rows), bounds_s=np.maximum(bases.bounds_s[rows], plain_s))


def _fewest_layers(search: EvenSearch, bases: Plans) -> Iterator[tuple[Plan, float]]:
    """Each of `bases` with full recompute of as few layers of every stage as fit, and what it takes at least.

    Nothing of those that fit only with all layers recomputed.
    """
    job, plans = search.job, [bases.plan(row) for row in range(len(bases))]
    context = plan_context(job.graph, with_policies(bases, (NONE, FULL)), job.cluster, job.precision)
    # layers of several kinds, and chunks on two stages, are counted by plans as they are
    is_plain = len(layer_blocks(job.graph)) == 1
    fewest = _fewest_by_stage(context, plans) if is_plain else {}
    for row, base in enumerate(plans):
        is_quick = is_plain and base.schedule not in TWO_STAGE_SCHEDULES
        num_layers = fewest.get(row, 0) if is_quick else _fewest_by_bisection(search, base)
        if 0 < num_layers < _most_layers(job.graph, base):
            plan = replace(base, recompute=("full",), recompute_layers=(num_layers,))
            yield plan, float(assembly_by(context, 2 * row + 1, plan).step_s[0])


def _most_layers(graph: Graph, plan: Plan) -> int:
    """Layers of the stage that holds most."""
    chunks = layers_per_chunk(graph.num_layers, plan)
    return max(sum(chunks[stage :: plan.pipeline_parallel]) for stage in range(plan.pipeline_parallel))


def _fewest_by_stage(context: PlanContext, plans: list[Plan]) -> dict[int, int]:
    """Of equal layers: how many every stage of each plan has to recompute; nothing of those that do not fit."""
    [kind] = [index for index, block in enumerate(context.graph.blocks) if block.is_layer]
    layers = [stage_counts(context.graph, plan)[kind] for plan in plans]

    def wanted(index: int, stage: int) -> StageLayers:
        return StageLayers(counts=layers[index][stage : stage + 1, None], start=np.zeros(1, dtype=np.int64))

    options = stage_options(context, (NONE, FULL), wanted)
    found: dict[int, int] = {}
    for index, plan in enumerate(plans):
        own = options.plan == index
        least = np.full(plan.pipeline_parallel, np.iinfo(np.int64).max)
        np.minimum.at(least, options.stage[own], options.num_again[own])
        if least.max() <= layers[index].max():
            found[index] = int(least.max())
    return found


def _fewest_by_bisection(search: EvenSearch, base: Plan) -> int:
    """As `_fewest_by_stage`, of one plan, whose memory is counted whole; 0 where it does not fit."""
    job, cluster = search.job, search.job.cluster

    def fits(num_layers: int) -> bool:
        plan = replace(base, recompute=("full",), recompute_layers=(num_layers,))
        use = memory_use(shard(job.graph, plan), job.precision, *usable_by_stage(plan, cluster))
        return with_host(use, plan, cluster).fits

    few, many = 1, _most_layers(job.graph, base)  # more layers recomputed never need more
    while few < many:
        middle = (few + many) // 2
        few, many = (few, middle) if fits(middle) else (middle + 1, many)
    return many
