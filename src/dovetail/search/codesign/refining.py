"""Uneven plans of one system: layers and recompute by stage, searched where a bound says that they may win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.parallel.plan import Plan
from dovetail.search.codesign.best_plans import NO_PLAN
from dovetail.search.codesign.plan_sets import PlanSet
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.scoring import CasePlan, Scorer, SystemScore
from dovetail.search.codesign.systems import Built, network_j, network_of, system_chip
from dovetail.search.metrics import ChipFigures
from dovetail.search.planners.candidates import Found
from dovetail.search.planners.gap_bisection import TIED_FRAC, aimed
from dovetail.search.planners.refine import Job, balanced_plans, base_plans
from dovetail.search.space import Point
from dovetail.step.plan_table import plan_context
from dovetail.workload.graph import IntArray

NUM_REFINED = 500  # base plans of a system; some 10 ms each


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedCase:
    """A case on one system with its best plan, uneven ones included, and a loss that none of them is below."""

    plan: Plan
    loss: float
    step_s: float
    energy_j: float
    low: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedSystem:
    """A system with plans for all cases; `low` as far as it could be proven."""

    point: Point
    loss: float
    low: float
    cases: tuple[RefinedCase, ...]


def system_at(question: JointQuestion, point: Point) -> dict[str, float]:
    """The values of its knobs."""
    values = question.space.values(point)
    return {knob.name: float(value) for knob, value in zip(question.space.knobs, values, strict=True)}


def refined_system(scorer: Scorer, score: SystemScore, worst: float) -> RefinedSystem:
    """The best plans of a system that was scored, where they may come below `worst`."""
    question = scorer.question
    share = worst / score.low if len(question.cases) == 1 else np.inf
    cases = tuple(_refined_case(scorer, score, index, case.low * share) for index, case in enumerate(score.cases))
    loss, low = (
        float(question.combined(np.array([[getattr(case, name)] for case in cases]))[0]) for name in ("loss", "low")
    )
    return RefinedSystem(point=score.point, loss=loss, low=low, cases=cases)


def _refined_case(scorer: Scorer, score: SystemScore, index: int, worst: float) -> RefinedCase:
    question, known = scorer.question, score.cases[index]
    system = system_at(question, score.point)
    plan_set = scorer.plan_set(index, *network_of(system))
    chip = system_chip(question.base, system)
    loss = _losses(question, plan_set, scorer.built(score.point))
    best = _even(plan_set, known)
    if question.cases[index].is_even_only or known.low >= min(known.loss, worst) or not _decided_by_time(loss):
        return best
    a_second = loss(1.0, chip.energy.idle_w * plan_set.cluster.num_devices)
    found, bound_s = _searched(plan_set, chip, best if known.plan != NO_PLAN else None, worst / a_second)
    for each in found:
        if each.step_s < best.step_s:
            plan_loss = loss(each.step_s, each.energy_j)
            best = RefinedCase(plan=each.plan, loss=plan_loss, step_s=each.step_s, energy_j=each.energy_j, low=0.0)
    return replace(best, low=min(best.loss, max(known.low, bound_s * a_second)))


def _searched(plan_set: PlanSet, chip: Chip, even: RefinedCase | None, worst_s: float) -> tuple[list[Found], float]:
    """Uneven plans faster than the best even one and than `worst_s`, and a time that none is below."""
    job = plan_set.job(plan_set.on(chip))
    found = [] if even is None else balanced_plans(job, [even.plan])
    best_s = min([worst_s, *([] if even is None else [even.step_s]), *(each.step_s for each in found)])
    best_s *= 1 - TIED_FRAC  # many cuts and many systems take as long as the best to the last digits
    bases = base_plans(job, plan_set.bases.at(_may_win(plan_set, job, best_s)), best_s)
    uneven = aimed(job, bases, best_s, NUM_REFINED)
    return [*found, *uneven.found], uneven.bound_s


def _may_win(plan_set: PlanSet, job: Job, best_s: float) -> IntArray:
    """Base plans that fit the chip, less those that take `best_s` or more, whatever layers and recompute."""
    rows = plan_set.fitting(job.cluster.chip.hbm.capacity_bytes)
    if not len(rows):
        return rows
    context = plan_context(job.graph, plan_set.bases.at(rows), job.cluster, job.precision, is_broken_down=False)
    return rows[plan_set.pair_lower_bounds_s(rows, context) < best_s]


def _losses(question: JointQuestion, plan_set: PlanSet, built: Built) -> Callable[[float, float], float]:
    """By the metric, of seconds and joules of a step on this system."""
    num_devices = plan_set.cluster.num_devices

    def loss(step_s: float, energy_j: float) -> float:
        figures = ChipFigures(
            step_s=step_s,
            energy_j=energy_j + float(network_j(built.network_w[0], num_devices, step_s)),
            power_w=float(built.joined_w[0]),
            price_usd=float(built.joined_usd[0]),
            num_devices=num_devices,
            num_samples=plan_set.graph.num_tokens,
        )
        return float(question.metric.loss(figures))

    return loss


def _even(plan_set: PlanSet, known: CasePlan) -> RefinedCase:
    plan = plan_set.plans.plan(known.plan) if known.plan != NO_PLAN else Plan()
    return RefinedCase(plan=plan, loss=known.loss, step_s=known.step_s, energy_j=known.energy_j, low=known.low)


def _decided_by_time(loss: Callable[[float, float], float]) -> bool:
    """Whether of two plans the faster one is better, whatever energy they take."""
    return loss(1.0, 1.0) == loss(1.0, 2.0)
