"""The best plans for a model on a cluster: all even ones evaluated, uneven ones searched best first, a proven gap."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.hardware.cluster import Cluster
from dovetail.parallel.plan import RECOMPUTE_POLICIES
from dovetail.search.objectives import Objective
from dovetail.search.planners.candidates import Candidate, Scoring, Tally, best_of, least_s
from dovetail.search.planners.cuts.stage_options import check_depth
from dovetail.search.planners.even_plans import EvenPlans, EvenSearch, Progress
from dovetail.search.planners.gap_bisection import aimed
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.refine import Job, balanced_plans
from dovetail.workload.workload import Workload

NUM_REFINED = 2_000  # base plans; some 10 ms each


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was done about plans with uneven stages; see `refine`. Nothing, where only even ones were asked for.

    Base plans leave layers by stage and recompute open. Each was bounded away, or refined and closed, or is left open
    with no more proven than that none of its plans takes less than `bound_s`; which is 0 where nothing bounds time.
    """

    is_even_only: bool
    bound_s: float
    num_bases: int = 0
    num_pruned: int = 0
    num_closed: int = 0
    num_open: int = 0
    num_refined: int = 0  # closed or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The best plans, best first, no two with the same degrees; none where nothing fits.

    Every even plan of the space was evaluated. By objectives that time decides, plans whose layers or recompute differ
    by stage were searched too, and no plan of the space has a better score than the first by more than the gap.
    """

    best: tuple[Candidate, ...]
    tally: Tally
    proof: Proof

    @property
    def bound_s(self) -> float:
        """Seconds that no plan of the space takes less than; 0 where the objective is not time."""
        return self.proof.bound_s

    @property
    def gap_frac(self) -> float:
        """By how much the best possible plan may be ahead of the best found; 0: proven best, or all evaluated."""
        if not self.best or not self.bound_s:
            return 0.0
        return max(0.0, 1.0 - self.bound_s / self.best[0].step_s)


def planned(
    workload: Workload,
    cluster: Cluster,
    space: PlanSpace,
    objective: Objective,
    *,
    num_best: int,
    cluster_usd: float,
    progress: Progress,
    is_even_only: bool = False,
    num_refined: int = NUM_REFINED,
) -> Planned:
    """The `num_best` best plans of `space`, and how far from the best possible the first may be.

    By time, even plans are bounded and those that may be among the best evaluated. Unless `is_even_only`, layers and
    recompute of the base plans that may beat them are then set by stage, of `num_refined` at the most. Bounds are on
    time: by energy and by memory all even plans are evaluated, and no others looked at, and so where activations are
    offloaded, since there the least recompute is not the fastest.
    """
    graph = workload.training_graph()
    has_bounds = objective.aspect == "time" and any(block.is_layer for block in graph.blocks)
    if has_bounds and not is_even_only and space.pipeline_parallel != (1,):
        check_depth(graph, "keep stages even, with dovetail plan --forbid uneven or stages: even in space")
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    whole = EvenSearch(
        job=Job(graph=graph, cluster=cluster, precision=workload.precision, policies=policies),
        space=space,
        scoring=Scoring(objective=objective, cluster=cluster, num_tokens=graph.num_tokens, cluster_usd=cluster_usd),
        num_best=num_best,
        progress=progress,
    )
    found = []
    for part in space.by_offload:
        search, is_bounded = replace(whole, space=part), has_bounds and not any(part.offload_activations_frac)
        found.append(_searched(search, num_refined, is_bounded=is_bounded, is_even_only=is_even_only))
    return found[0] if len(found) == 1 else _together(found, num_best)


def _searched(search: EvenSearch, num_refined: int, *, is_bounded: bool, is_even_only: bool) -> Planned:
    is_even_only = is_even_only or not is_bounded
    even = search.best_first(has_queue=not is_even_only) if is_bounded else search.all_evaluated()
    bound_s = least_s(even.best) if search.scoring.objective.aspect == "time" else 0.0
    best, proof = even.best, Proof(is_even_only=is_even_only, bound_s=bound_s)
    if even.queue.waiting:
        best, proof = _with_uneven(even, search, num_refined)
    return Planned(best=best, tally=even.tally, proof=proof)


def _together(found: list[Planned], num_best: int) -> Planned:
    """Searches of parts of a space as one of all of it."""
    proofs, tallies = [each.proof for each in found], [each.tally for each in found]
    least = min(tallies, key=lambda tally: tally.least_bytes)
    counts = ("num_bases", "num_pruned", "num_closed", "num_open", "num_refined")
    return Planned(
        best=best_of(tuple(candidate for each in found for candidate in each.best), num_best),
        tally=replace(
            least,
            num_plans=sum(tally.num_plans for tally in tallies),
            num_evaluated=sum(tally.num_evaluated for tally in tallies),
            num_fitting=sum(tally.num_fitting for tally in tallies),
        ),
        proof=Proof(
            is_even_only=any(proof.is_even_only for proof in proofs),
            bound_s=min(proof.bound_s for proof in proofs),
            **{name: sum(getattr(proof, name) for proof in proofs) for name in counts},
        ),
    )


def _with_uneven(even: EvenPlans, search: EvenSearch, num_most: int) -> tuple[tuple[Candidate, ...], Proof]:
    """The best of even and uneven plans: those shown are balanced first, so that they are compared fairly."""
    job, scoring, queue = search.job, search.scoring, even.queue
    found = list(balanced_plans(job, [candidate.plan for candidate in even.best]))
    best_s = min([least_s(even.best), *(each.step_s for each in found)])
    bases = queue.below(best_s)
    unit = even.best[0].score / even.best[0].step_s if even.best else 1.0  # of the score, for a second

    def report_progress(num_done: int, num_all: int, step_s: float, bound_s: float) -> None:
        search.progress(num_done, num_all, even.tally, unit * step_s, bound_s)

    made = aimed(job, bases, best_s, num_most, report_progress)
    uneven = (scoring.candidate(each) for each in (*found, *made.found))
    return best_of((*even.best, *uneven), search.num_best), Proof(
        is_even_only=False,
        bound_s=made.bound_s,
        num_bases=queue.num_all,
        num_pruned=queue.num_all - made.num_closed - made.num_open,
        num_closed=made.num_closed,
        num_open=made.num_open,
        num_refined=made.num_refined,
    )
