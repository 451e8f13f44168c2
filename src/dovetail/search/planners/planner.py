"""The best plans for a model on a cluster: all even ones evaluated, uneven ones searched best first, a proven gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.parallel.plan import RECOMPUTE_POLICIES
from dovetail.search.objectives import Objective
from dovetail.search.planners.candidates import Candidate, Found, Scoring, Tally, best_of, least_s
from dovetail.search.planners.cuts.stage_options import check_depth
from dovetail.search.planners.even_plans import EvenPlans, EvenSearch, PlanProgress
from dovetail.search.planners.gap_bisection import aimed
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.refine import Job, balanced_plans
from dovetail.workload.workload import Workload

NUM_REFINED = 2_000  # base plans; some 10 ms each


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How far the best plan is proven over plans with uneven stages (see `refine`); empty where only even ones count.

    A base plan leaves layers by stage and recompute open. Each base plan was bounded away, or refined and closed, or is
    left open with only its lower bound. No plan takes less than `bound_s`, which is 0 where nothing bounds time.
    """

    is_even_only: bool
    bound_s: float
    num_bases: int = 0
    num_pruned: int = 0
    num_closed: int = 0
    num_open: int = 0
    num_refined: int = 0  # closed or not
    are_rows_proven: bool = False  # whether every plan of the ranking is the best of its degrees, among even ones


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSearchResult:
    """The best plans, best first, no two with the same degrees; none where nothing fits.

    Every even plan of the space was evaluated. By objectives that time decides, plans whose layers or recompute differ
    by stage were searched too, and no plan of the space has a better score than the first by more than the gap.
    """

    best: tuple[Candidate, ...]
    tally: Tally
    proof: Proof
    bound_score: float = 0.0  # that no plan of the space is below, where scores are not in seconds as predicted
    fastest: tuple[Candidate, ...] = ()  # as predicted, where plans are ranked by something else

    @property
    def bound_s(self) -> float:
        """Seconds that no plan of the space takes less than; 0 where the objective is not time."""
        return self.proof.bound_s

    @property
    def gap_frac(self) -> float:
        """By how much the best possible plan may be ahead of the best found; 0: proven best, or all evaluated."""
        if not self.best or not self.bound_s:
            return 0.0
        if self.bound_score:
            return max(0.0, 1.0 - self.bound_score / self.best[0].score)
        return max(0.0, 1.0 - self.bound_s / self.best[0].step_s)


def search_plans(
    workload: Workload,
    cluster: Cluster,
    space: PlanSpace,
    objective: Objective,
    *,
    num_best: int,
    cluster_usd: float,
    progress: PlanProgress,
    is_even_only: bool = False,
    num_refined: int = NUM_REFINED,
) -> PlanSearchResult:
    """The `num_best` best plans of `space`, and how far from the best possible the first may be.

    By time, even plans are bounded and those that may be among the best are evaluated. Unless `is_even_only`, base
    plans that may beat them, at most `num_refined`, then get layers and recompute by stage. Bounds are on time: by
    energy and by memory all even plans are evaluated and no uneven ones. The same holds where activations are
    offloaded, since there the least recompute is not the fastest.
    """
    graph = workload.training_graph()
    has_bounds = objective.aspect == "time" and any(block.is_layer for block in graph.blocks)
    if has_bounds and not is_even_only and space.pipeline_parallel != (1,):
        check_depth(graph, "keep stages even, with dovetail plan --forbid uneven or stages: even in space")
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    whole_space = EvenSearch(
        job=Job(graph=graph, cluster=cluster, precision=workload.precision, policies=policies),
        space=space,
        scoring=Scoring(objective=objective, cluster=cluster, num_tokens=graph.num_tokens, cluster_usd=cluster_usd),
        num_best=num_best,
        progress=progress,
    )
    results = []
    for subspace in space.by_offload:
        search, is_bounded = (
            replace(whole_space, space=subspace),
            has_bounds and not any(subspace.offload_activations_frac),
        )
        results.append(_searched(search, num_refined, is_bounded=is_bounded, is_even_only=is_even_only))
    return results[0] if len(results) == 1 else joined_results(results, num_best)


def _searched(search: EvenSearch, num_refined: int, *, is_bounded: bool, is_even_only: bool) -> PlanSearchResult:
    is_even_only = is_even_only or not is_bounded
    even = search.best_first(has_queue=not is_even_only) if is_bounded else search.all_evaluated()
    bound_s = least_s(even.best) if search.scoring.objective.aspect == "time" else 0.0
    best, proof = even.best, Proof(is_even_only=is_even_only, bound_s=bound_s, are_rows_proven=is_even_only)
    if even.queue.waiting:
        best, proof = _with_uneven(even, search, num_refined)
    return PlanSearchResult(best=best, tally=even.tally, proof=proof)


def joined_results(results: list[PlanSearchResult], num_best: int) -> PlanSearchResult:
    """The results of searches of subspaces as the result of the whole space."""
    proofs, tallies = [each.proof for each in results], [each.tally for each in results]
    least = min(tallies, key=lambda tally: tally.least_bytes)
    counts = ("num_bases", "num_pruned", "num_closed", "num_open", "num_refined")
    return PlanSearchResult(
        best=best_of(tuple(candidate for each in results for candidate in each.best), num_best),
        tally=replace(
            least,
            num_plans=sum(tally.num_plans for tally in tallies),
            num_evaluated=sum(tally.num_evaluated for tally in tallies),
            num_fitting=sum(tally.num_fitting for tally in tallies),
        ),
        proof=Proof(
            is_even_only=any(proof.is_even_only for proof in proofs),
            bound_s=min((proof.bound_s for proof in proofs if proof.bound_s), default=0.0),
            **{name: sum(getattr(proof, name) for proof in proofs) for name in counts},
            are_rows_proven=all(proof.are_rows_proven for proof in proofs),
        ),
        bound_score=min((each.bound_score for each in results if each.bound_score), default=0.0),
        fastest=tuple(sorted((one for each in results for one in each.fastest), key=lambda one: one.step_s)[:1]),
    )


def _with_uneven(even: EvenPlans, search: EvenSearch, num_most: int) -> tuple[tuple[Candidate, ...], Proof]:
    """The best of even and uneven plans; the even plans that are shown are balanced first, for a fair comparison."""
    job, scoring, queue = search.job, search.scoring, even.queue
    balanced = list(balanced_plans(job, [candidate.plan for candidate in even.best]))
    best_s = min([least_s(even.best), *(each.step_s for each in balanced)])
    bases = queue.below(best_s)
    first = best_of((*even.best, *(scoring.candidate(each) for each in balanced)), 1)

    def report_progress(num_done: int, num_all: int, _: float, bound_s: float, found: Sequence[Found]) -> None:
        best = best_of((*first, *(scoring.candidate(each) for each in found)), 1)
        score = best[0].score if best else np.inf
        search.progress(num_done, num_all, even.tally, score, bound_s, best)

    report_progress(0, len(bases), best_s, float(bases.bounds_s.min(initial=best_s)), ())

    uneven_search = aimed(job, bases, best_s, num_most, report_progress)
    uneven_candidates = (scoring.candidate(each) for each in (*balanced, *uneven_search.found))
    return best_of((*even.best, *uneven_candidates), search.num_best), Proof(
        is_even_only=False,
        bound_s=uneven_search.bound_s,
        num_bases=queue.num_all,
        num_pruned=queue.num_all - uneven_search.num_closed - uneven_search.num_open,
        num_closed=uneven_search.num_closed,
        num_open=uneven_search.num_open,
        num_refined=uneven_search.num_refined,
    )
