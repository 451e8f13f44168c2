"""The best plans for a model on a cluster: all even ones evaluated, uneven ones searched best first, a proven gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.plan.cuts import cuts_of
from dovetail.plan.placements import NOWHERE, placements_of
from dovetail.plan.plan import RECOMPUTE_POLICIES, Plan
from dovetail.plan.plans import Plans, distinct, joined
from dovetail.schedule.memory_needs import need_bytes
from dovetail.schedule.step import step_times
from dovetail.search.objectives import Figures, Objective
from dovetail.search.plan_space import PlanSpace, batches, num_grids
from dovetail.search.refine import BaseQueue, Found, Job, balanced_plans, refined
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.workload import Workload

NUM_REFINED = 512  # base plans; some 10 ms each
PLANS_AT_ONCE = 150_000  # whose columns take some hundred MB
DEGREES = ("tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan that fits, and what it comes to."""

    plan: Plan
    step_s: float
    energy_j: float
    need_bytes: float
    score: float
    figure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many plans a search has met: all of them, those that fit, and the least memory that any needs.

    `least` holds the plan that needs it, or nothing as long as no plan nests in the network.
    """

    num_plans: int = 0
    num_fitting: int = 0
    least_bytes: float = np.inf
    least: tuple[Plan, ...] = ()

    def with_(self, plans: Plans, need: FloatArray, fits: int) -> Tally:
        row = int(need.argmin())
        is_less = bool(need[row] < self.least_bytes)
        return Tally(
            num_plans=self.num_plans + len(plans),
            num_fitting=self.num_fitting + fits,
            least_bytes=float(need[row]) if is_less else self.least_bytes,
            least=(plans.plan(row),) if is_less else self.least,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was done about plans with uneven stages; see `refine`. Nothing, where only even ones were asked for.

    Base plans, which leave layers by stage and recompute open, were bounded away, or refined, or left `num_open` with
    no more proven than that none of their plans takes less than `bound_s`.
    """

    is_even_only: bool
    bound_s: float
    num_bases: int = 0
    num_bounded_away: int = 0
    num_refined: int = 0
    num_open: int = 0


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
        """Seconds that no plan of the space takes less than."""
        return self.proof.bound_s

    @property
    def gap_frac(self) -> float:
        """By how much the best possible plan may be ahead of the best found; 0: proven best."""
        if not self.best or self.proof.is_even_only:
            return 0.0
        return max(0.0, 1.0 - self.bound_s / self.best[0].step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scoring:
    """What turns the figures of plans into scores."""

    objective: Objective
    cluster: Cluster
    num_tokens: int
    cluster_usd: float

    def figures(self, step_s: Amount, energy_j: Amount, need_bytes: Amount) -> Figures:
        return Figures(
            step_s=step_s,
            energy_j=energy_j,
            need_bytes=need_bytes,
            limit_bytes=self.cluster.hbm_bytes,
            num_tokens=self.num_tokens,
            cluster_usd=self.cluster_usd,
        )

    def candidate(self, found: Found) -> Candidate:
        figures = self.figures(found.step_s, found.energy_j, found.need_bytes)
        return Candidate(
            plan=found.plan,
            step_s=found.step_s,
            energy_j=found.energy_j,
            need_bytes=found.need_bytes,
            score=float(self.objective.score(figures)),
            figure=float(self.objective.figure(figures)),
        )


Progress = Callable[[int, int, Tally, float], None]  # grids done, grids in all, tally, best score so far


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

    All even plans are evaluated. Unless `is_even_only`, layers and recompute of the base plans that may beat them are
    then set by stage, of `num_refined` at the most. Bounds are on time: by energy and by memory only even plans count.
    """
    graph = workload.training_graph()
    is_even_only = is_even_only or objective.aspect != "time" or not any(block.is_layer for block in graph.blocks)
    scoring = _Scoring(objective=objective, cluster=cluster, num_tokens=graph.num_tokens, cluster_usd=cluster_usd)
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    job = Job(graph=graph, cluster=cluster, precision=workload.precision, policies=policies)
    best, tally, queue = _even(job, space, scoring, num_best, progress, has_queue=not is_even_only)
    if not queue.waiting:
        return Planned(best=best, tally=tally, proof=Proof(is_even_only=is_even_only, bound_s=_least_s(best)))
    best, proof = _with_uneven(best, queue, job, scoring, num_best, num_refined)
    return Planned(best=best, tally=tally, proof=proof)


def _even(
    job: Job, space: PlanSpace, scoring: _Scoring, num_best: int, progress: Progress, *, has_queue: bool
) -> tuple[tuple[Candidate, ...], Tally, BaseQueue]:
    """The best even plans, what was met, and base plans that may be better with uneven stages."""
    graph, cluster = job.graph, job.cluster
    best: tuple[Candidate, ...] = ()
    tally, queue = Tally(), BaseQueue()
    num_done, num_all = 0, num_grids(space, graph, cluster.num_devices)
    for num_batches, plans in _chunks(batches(space, graph, cluster.num_devices)):
        found, need = _fitting(plans, job)
        tally = tally.with_(plans, need, len(found))
        fitting = plans.at(found)
        if len(fitting):
            times = step_times(graph, fitting, cluster, job.precision)
            figures = scoring.figures(times.step_s, times.energy_j, need[found])
            best = _merged(best, _best(fitting, figures, scoring.objective, num_best), num_best)
        if has_queue:
            queue = queue.with_(job, plans.at(np.flatnonzero(np.isfinite(need))), _least_s(best))
        num_done += num_batches
        progress(num_done, num_all, tally, best[0].score if best else np.inf)
    return best, tally, queue


def _with_uneven(
    even: tuple[Candidate, ...], queue: BaseQueue, job: Job, scoring: _Scoring, num_best: int, num_most: int
) -> tuple[tuple[Candidate, ...], Proof]:
    """The best of even and uneven plans: those shown are balanced first, so that they are compared fairly."""
    found = list(balanced_plans(job, [candidate.plan for candidate in even]))
    least_s = min([_least_s(even), *(each.step_s for each in found)])
    bases = queue.below(least_s)
    made = refined(job, bases, least_s, num_most)
    best = _distinct((*even, *(scoring.candidate(each) for each in (*found, *made.found))), num_best)
    return best, Proof(
        is_even_only=False,
        bound_s=made.bound_s,
        num_bases=queue.num_all,
        num_bounded_away=queue.num_all - len(bases),
        num_refined=made.num_refined,
        num_open=made.num_open,
    )


def _least_s(best: tuple[Candidate, ...]) -> float:
    return best[0].step_s if best else np.inf


def _chunks(found: Iterator[Plans]) -> Iterator[tuple[int, Plans]]:
    """Batches together until they are worth a call, and how many they are."""
    waiting: list[Plans] = []
    for batch in found:
        waiting.append(batch)
        if sum(len(some) for some in waiting) >= PLANS_AT_ONCE:
            yield len(waiting), joined(waiting)
            waiting = []
    if waiting:
        yield len(waiting), joined(waiting)


def _fitting(plans: Plans, job: Job) -> tuple[IntArray, FloatArray]:
    """Rows of plans that nest in the network and fit, and what each needs; infinite where it does not nest."""
    is_placed = placements_of(plans, job.cluster.topology).group_of["tensor"] != NOWHERE
    rows = np.flatnonzero(is_placed)
    need = np.full(len(plans), np.inf)
    if len(rows):
        placed = plans.at(rows)
        need[rows] = need_bytes(job.graph, placed, cuts_of(placed, job.graph), job.precision)
    return np.flatnonzero(need <= job.cluster.hbm_bytes), need


def _best(plans: Plans, figures: Figures, objective: Objective, num_best: int) -> tuple[Candidate, ...]:
    """The best of `plans`, the best of each combination of degrees."""
    scores = np.asarray(objective.score(figures), dtype=np.float64)
    shown = np.broadcast_to(objective.figure(figures), scores.shape)
    order = np.lexsort((figures.need_bytes, scores))  # of equals the one that needs less memory
    _, kind_of = distinct(*(getattr(plans, name) for name in DEGREES))
    _, first = np.unique(kind_of[order], return_index=True)
    chosen = order[np.sort(first)][:num_best]
    return tuple(
        Candidate(
            plan=plans.plan(int(row)),
            step_s=float(figures.step_s[row]),
            energy_j=float(figures.energy_j[row]),
            need_bytes=float(figures.need_bytes[row]),
            score=float(scores[row]),
            figure=float(shown[row]),
        )
        for row in chosen
    )


def _merged(a: tuple[Candidate, ...], b: tuple[Candidate, ...], num_best: int) -> tuple[Candidate, ...]:
    """The best of both; batches hold different degrees, so none is there twice."""
    return tuple(sorted((*a, *b), key=lambda candidate: (candidate.score, candidate.need_bytes))[:num_best])


def _distinct(found: tuple[Candidate, ...], num_best: int) -> tuple[Candidate, ...]:
    """The best of each combination of degrees."""
    best: dict[tuple[int, ...], Candidate] = {}
    for candidate in _merged(found, (), len(found)):
        best.setdefault(tuple(getattr(candidate.plan, name) for name in DEGREES), candidate)
    return tuple(best.values())[:num_best]
