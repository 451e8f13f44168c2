"""Our best plan among the kinds of plan that a published study could choose from, to lay beside its own."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.papers.phaze import Found, found
from dovetail.papers.phaze_cases import MICROBATCHES, TENSOR_PARALLEL, Terms
from dovetail.parallel.plan import AXES
from dovetail.search.objectives import objectives
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import search_plans
from dovetail.workload.workload import Workload

NUM_REFINED = 200  # base plans whose stages are set one by one; gaps beyond are reported


def terms_space(terms: Terms) -> PlanSpace:
    """What a planner may choose from on these terms: PHAZE's own kinds of plan, or all of ours."""
    if not terms.is_published:
        return PlanSpace(recompute=terms.recompute, overlap=(terms.overlap,))
    return phaze_space(terms.recompute, PlanSpace(overlap=(terms.overlap,), microbatch=MICROBATCHES))


def phaze_space(recompute: tuple[str, ...], like: PlanSpace) -> PlanSpace:
    """Data, pipeline and tensor parallelism alone, 1F1B: no ZeRO, no sequence, context or interleaving.

    PHAZE's placement program sets layers by stage as ours does, and knows no network levels.
    """
    return PlanSpace(
        tensor_parallel=TENSOR_PARALLEL,
        sequence_parallel=(False,),
        context_parallel=(1,),
        interleave=(1,),
        zero_stage=(0,),
        microbatch=like.microbatch,
        expert_parallel=like.expert_parallel,
        recompute=recompute,
        axis_order=like.axis_order or (AXES,),
        overlap=like.overlap,
    )


def best_on_terms(workload: Workload, cluster: Cluster, terms: Terms) -> Found | None:
    return best_plan(workload, cluster, terms_space(terms))


def best_plan(workload: Workload, cluster: Cluster, space: PlanSpace) -> Found | None:
    """The fastest plan of `space` with its proven bound; nothing where none fits."""
    answer = search_plans(
        workload,
        cluster,
        space,
        objectives["time"],
        num_best=1,
        cluster_usd=0.0,
        progress=lambda *_: None,
        num_refined=NUM_REFINED,
    )
    if not answer.best:
        return None
    best = answer.best[0]
    return found(workload, cluster, best.plan, best.step_s, min(answer.bound_s, best.step_s))
