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
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard
from dovetail.search.objectives import Objective
from dovetail.search.planners.candidates import Candidate, Found, Scoring, best_of, least_s
from dovetail.search.planners.even_plans import EvenPlans, EvenSearch, PlanProgress, PlanRules
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, Proof
from dovetail.search.planners.refine import Job
from dovetail.workload.workload import Workload

NUM_PARTLY = 16  # base plans that are tried with recompute of some layers; some 60 ms each
NUM_SPARE = 8  # plans beyond those wanted that are kept, as a launcher may refuse some


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
        num_best=num_best + NUM_SPARE,
        progress=progress,
        rules=runnable.rules,
        framework=runnable.framework,
        limit_s=limit_s,
    )
    is_bounded = objective.aspect == "time" and any(block.is_layer for block in graph.blocks)
    is_bounded &= not any(space.offload_activations_frac) and len(space.by_offload) == 1
    even = search.best_first(has_queue=runnable.has_partial_recompute) if is_bounded else _all_evaluated(search)
    best = best_of(tuple(_as_run(runnable, search, even.best)), num_best)
    bound_s, num_partly = least_s(even.best), 0
    if is_bounded and even.queue.waiting:
        found, bound_s, num_partly = _partly_recomputed(runnable, search, even, min(limit_s, least_s(best)))
        best = best_of((*best, *found), num_best)
    return PlanSearchResult(
        best=best,
        tally=even.tally,
        proof=Proof(
            is_even_only=True,
            bound_s=min(bound_s, least_s(best)) if best and objective.aspect == "time" else 0.0,
            num_refined=num_partly,
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


def _partly_recomputed(
    runnable: RunnableSpace, search: EvenSearch, even: EvenPlans, best_s: float
) -> tuple[list[Candidate], float, int]:
    """Base plans that may be faster than `best_s` with full recompute of the fewest layers that fit, best bound first.

    With them what no even plan is faster than, whatever layers it recomputes, and how many base plans were tried.
    """
    bases = even.queue.below(best_s)
    order = np.argsort(bases.bounds_s, kind="stable")
    found: list[Candidate] = []
    for num_done, row in enumerate(order):
        bound_s = float(bases.bounds_s[row])
        if bound_s >= best_s:
            return found, best_s, num_done
        if num_done == NUM_PARTLY:
            return found, bound_s, num_done
        for plan in _fewest_layers(search, bases.plans.plan(int(row))):
            for run in runnable.as_run(plan):
                found += _evaluated(runnable, search, run)
        best_s = min([best_s, *(candidate.step_s for candidate in found)])
    return found, best_s, len(order)


def _fewest_layers(search: EvenSearch, base: Plan) -> Iterator[Plan]:
    """`base` with full recompute of as few layers of every stage as fit; nothing where none or all of them do."""
    job, cluster = search.job, search.job.cluster
    chunks = layers_per_chunk(job.graph.num_layers, base)
    most = max(sum(chunks[stage :: base.pipeline_parallel]) for stage in range(base.pipeline_parallel))

    def recomputing(num_layers: int) -> Plan:
        return replace(base, recompute=("full",), recompute_layers=(num_layers,))

    def fits(plan: Plan) -> bool:
        use = memory_use(shard(job.graph, plan), job.precision, *usable_by_stage(plan, cluster))
        return with_host(use, plan, cluster).fits

    if not fits(replace(base, recompute=("full",), recompute_layers=())):
        return
    few, many = 1, most  # more layers recomputed never need more
    while few < many:
        middle = (few + many) // 2
        few, many = (few, middle) if fits(recomputing(middle)) else (middle + 1, many)
    if many < most:
        yield recomputing(many)
