"""The plans that a search found, ranked and explained: the best whole, the others by what they lose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.cost.price import price
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.evaluate import Infeasible, Outcome, check_formats, evaluate
from dovetail.hardware.chip import Chip
from dovetail.hardware.heterogeneous import AnyCluster, pools_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import framework_of
from dovetail.search.objectives import Figures, Objective
from dovetail.search.planners.candidates import Candidate, Tally
from dovetail.search.planners.constraints import Constraint
from dovetail.search.planners.losses import COMPONENTS, Components, Loss, Setting, losses
from dovetail.search.planners.membership import holds
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, Proof
from dovetail.search.planners.quantiles import MEDIAN, Quantile
from dovetail.workload.workload import Workload

NUM_COMPARED = 10  # plans of different degrees that a search keeps, however many are shown: the choice is among them
SAME_FRAC = 1e-9  # style: a tolerance; searches add up in another order than the evaluation of one plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a plan is wanted for; `given` holds the user's plan, if there is one.

    `by_zero_stage`: the workload as a framework trains it under some ZeRO stages, where that is not `workload`.
    """

    workload: Workload
    cluster: AnyCluster
    objective_name: str
    objective: Objective
    constraints: tuple[Constraint, ...]
    space: PlanSpace
    given: tuple[Plan, ...] = ()
    quantile: Quantile = MEDIAN  # of its time, that a plan is ranked by
    by_zero_stage: tuple[tuple[int, Workload], ...] = ()

    def workload_by(self, plan: Plan) -> Workload:
        """What is trained by `plan`."""
        return dict(self.by_zero_stage).get(plan.zero_stage, self.workload)

    def __post_init__(self) -> None:
        check_formats(self.workload.precision, self.cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A plan, what it comes to, and how far it is behind the best of the space: below 0 it is ahead."""

    candidate: Candidate
    over_best_frac: float
    breakdown: tuple[Loss, ...]  # most behind first; none of the best
    is_given: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The best plan of a space and those behind it, with the user's own among them where that fits.

    `compared` are the best plans of different degrees, the best first: as many whatever part of them is in `ranking`.
    """

    question: Question
    best: Outcome
    ranking: tuple[Ranked, ...]
    given: tuple[Outcome | Infeasible, ...]
    tally: Tally
    proof: Proof
    gap_frac: float
    fastest: tuple[Candidate, ...] = ()  # as predicted, where plans are ranked by a quantile of time
    compared: tuple[Candidate, ...] = ()

    @property
    def missed(self) -> tuple[Ranked, ...]:
        """The user's own plan, where it lies in the space that was searched and the search did not find it."""
        space, is_even_only = self.question.space, self.proof.is_even_only
        ahead = (one for one in self.ranking if one.is_given and one.over_best_frac < -SAME_FRAC)
        terms: dict[str, Any] = {"is_even_only": is_even_only, "framework": framework_of(self.question.cluster)}
        return tuple(one for one in ahead if holds(space, one.candidate.plan, **terms))

    @property
    def is_proof_broken(self) -> bool:
        """Whether a plan that the search missed is further ahead than its gap allows."""
        return any(-one.over_best_frac > self.gap_frac + SAME_FRAC for one in self.missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFits:
    """No plan of a space fits: the one that needs least memory, and the user's own."""

    question: Question
    least: Infeasible
    given: tuple[Outcome | Infeasible, ...]
    tally: Tally


def cluster_usd(cluster: AnyCluster, objective: Objective) -> float:
    """What all chips cost to make, where `objective` asks; else 1, which changes no rank."""
    if not objective.is_priced:
        return 1.0
    return sum(pool.num_devices * _chip_usd(pool.chip) for pool in pools_of(cluster))


def _chip_usd(chip: Chip) -> float:
    try:
        return float(price(chip).total_usd)
    except DovetailError as error:
        message = f"what {chip.name} costs is not modelled: {error.message}"
        raise NotModelled(f"{message}; describe its die, or choose another objective", "--objective") from None


def choice(question: Question, found: PlanSearchResult, num_ranked: int | None = None) -> Choice | NothingFits:
    """What `found` comes to, its best `num_ranked` plans ranked, or all of them.

    Raises `InvalidInput` where no plan of the space lies on the network.
    """
    workload, cluster = question.workload, question.cluster
    own = tuple(evaluate(workload, cluster, plan) for plan in question.given)
    if not found.best:
        if not found.tally.least:
            raise _nowhere(question, found.tally)
        least = evaluate(workload, cluster, found.tally.least[0])  # its pools in order, where there are several
        assert isinstance(least, Infeasible), f"{found.tally.least[0]} does not fit in the search and fits by itself"
        return NothingFits(question=question, least=least, given=own, tally=found.tally)
    best = evaluate(workload, cluster, found.best[0].plan)
    assert isinstance(best, Outcome), f"{found.best[0].plan} fits in the search and not by itself"
    return Choice(
        question=question,
        best=best,
        ranking=_ranking(question, found.best[:num_ranked], own),
        given=own,
        tally=found.tally,
        proof=found.proof,
        gap_frac=found.gap_frac,
        fastest=found.fastest,
        compared=found.best[:NUM_COMPARED],
    )


def _nowhere(question: Question, tally: Tally) -> InvalidInput:
    networks = [pool.topology.dimensions for pool in pools_of(question.cluster)]
    sizes = " and ".join(" x ".join(str(dimension.num_devices) for dimension in each) for each in networks)
    message = f"none of the {tally.num_plans:,} plans nests in the cluster's network of {sizes} devices"
    return InvalidInput(f"{message}; leave other degrees or axis orders to choose from")


def _ranking(
    question: Question, found: tuple[Candidate, ...], own: tuple[Outcome | Infeasible, ...]
) -> tuple[Ranked, ...]:
    """Best first; the user's own plan at its place."""
    own_candidates = [_candidate(question, result) for result in own if isinstance(result, Outcome)]
    plans = {candidate.plan for candidate in found}
    candidates = sorted(
        (*found, *(one for one in own_candidates if one.plan not in plans)),
        key=lambda candidate: (candidate.score, candidate.need_bytes),
    )
    components, best = COMPONENTS[question.objective.aspect], found[0]

    def parts_of(plan: Plan) -> Components:
        workload = question.workload_by(plan)
        graph = workload.training_graph()
        return components(plan, Setting(graph=graph, cluster=question.cluster, precision=workload.precision))

    best_parts = parts_of(best.plan)
    return tuple(
        Ranked(
            candidate=one,
            over_best_frac=one.score / best.score - 1.0,
            breakdown=losses(best_parts, parts_of(one.plan)) if one.plan != best.plan else (),
            is_given=one.plan in question.given,
        )
        for one in candidates
    )


def _candidate(question: Question, result: Outcome) -> Candidate:
    figures = Figures(
        step_s=result.step.step_s,
        energy_j=result.step.energy_j,
        need_bytes=result.memory.need_bytes,
        limit_bytes=result.memory.limit_bytes,
        num_tokens=result.tokens_per_step,
        cluster_usd=cluster_usd(question.cluster, question.objective),
    )
    candidate = Candidate(
        plan=result.plan,
        step_s=float(figures.step_s),
        energy_j=float(figures.energy_j),
        need_bytes=float(figures.need_bytes),
        score=float(question.objective.score(figures)),
        figure=float(question.objective.figure(figures)),
    )
    return question.quantile.ranked(candidate, question.workload, question.cluster)
