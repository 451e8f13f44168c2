"""The best chip of PHAZE's space with its plan for one of its models, and what PHAZE's stop rule would have found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from dovetail.accuracy.reproduce.phaze import Found, Joint, found
from dovetail.accuracy.reproduce.phaze_cases import NUM_DEVICES, Case, Terms, cluster_of
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design
from dovetail.search.codesign.joint import Hands, JointFound, joint_search, own_hands
from dovetail.search.codesign.presets import PLANS, PRESETS
from dovetail.search.codesign.question import Budget, JointQuestion, system_space
from dovetail.search.codesign.question import Case as JointCase
from dovetail.search.codesign.refining import refined_system, system_at
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import system_chip
from dovetail.search.metrics import metrics
from dovetail.search.phaze_space import PhazeChips, phaze_chips
from dovetail.search.phaze_stop import stopped_among
from dovetail.search.plan_space import PlanSpace
from dovetail.search.published_plans import best_on_terms, terms_space
from dovetail.search.space import Point
from dovetail.units import MEBI
from dovetail.workload.graph import FloatArray, IntArray

PRESET = PRESETS["phaze"]
SCORED_AT_ONCE = 32  # systems; as many as the joint search takes in one task


def chip_plans(terms: Terms) -> PlanSpace:
    """What plans chips are searched with: all of the terms where they are PHAZE's, else those mostly run with."""
    return terms_space(terms) if terms.is_published else replace(PLANS, overlap=(terms.overlap,))


def question_of(case: Case, terms: Terms) -> JointQuestion:
    base = chips[PRESET.base]()
    return JointQuestion(
        cases=(JointCase(workload=case.workload(terms), plans=chip_plans(terms)),),
        base=base,
        network=lambda chip, num_devices: cluster_of(chip, terms, num_devices),
        space=system_space(base, NUM_DEVICES, PRESET.values),
        budget=Budget(),
        metric=metrics["throughput"],
        reference_losses=(1.0,),
        rule=PRESET.rule,
    )


def best_joint(case: Case, terms: Terms, hands_of: Callable[[Scorer], Hands] = own_hands) -> Joint | None:
    """The proven best chip for `case` by the plans of `chip_plans`, then given the best plan of the terms.

    So its bound is that of the former; nothing where no chip fits any plan.
    """
    question = question_of(case, terms)
    scorer = Scorer(question)
    best = joint_search(scorer, hands_of(scorer))
    if best is None:
        return None
    stop, stopped_s = _stopped(question, scorer)
    num_sequences = case.workload(terms).global_batch
    census = best.census
    return Joint(
        chip=_chip(question, best.best.point),
        found=_found(case, terms, question, best),
        num_chips=census.num_systems,
        num_evaluated=census.num_scored,
        num_bounded_away=census.num_bounded_away,
        num_infeasible=census.num_unfit,
        stopped_chips=stop,
        stopped_sequences_per_s=num_sequences / stopped_s,
    )


def _found(case: Case, terms: Terms, question: JointQuestion, best: JointFound) -> Found:
    cluster, workload = cluster_of(_chip(question, best.best.point), terms), case.workload(terms)
    [own] = best.best.cases
    bound_s = own.step_s * min(1.0, best.bound / best.best.loss)
    searched = found(workload, cluster, own.plan, own.step_s, bound_s)
    planned = best_on_terms(workload, cluster, terms)
    if planned is None or planned.step_s >= searched.step_s:
        return searched
    return replace(planned, bound_s=min(bound_s, planned.step_s))


def _chip(question: JointQuestion, point: Point) -> Chip:
    """A point's chip, on the links of the base: PHAZE's are no whole number of GB/s, as knobs are."""
    chip = system_chip(question.base, system_at(question, point))
    return replace(chip, interconnect_bytes_per_s=question.base.interconnect_bytes_per_s)


def _stopped(question: JointQuestion, scorer: Scorer) -> tuple[int, float]:
    """How many chips PHAZE's outer loop looks at, each with its best HBM, and the fastest step among them."""
    every = phaze_chips()
    scores: dict[int, SystemScore] = {}

    def tokens_per_s(rows: IntArray) -> FloatArray:
        points = {int(row): _points(question, every, int(row)) for row in rows}
        flat = [point for own in points.values() for point in own]
        chunks = (flat[at : at + SCORED_AT_ONCE] for at in range(0, len(flat), SCORED_AT_ONCE))
        by_point = {score.point: score for chunk in chunks for score in scorer.score(chunk, np.inf)}
        for row, own in points.items():
            scores[row] = min((by_point[point] for point in own), key=lambda score: score.loss)
        return np.array([1 / scores[int(row)].loss for row in rows])

    stop = stopped_among(every.area_mm2, tokens_per_s)
    [best] = refined_system(scorer, scores[stop.best_row], np.inf).cases
    return stop.num_chips, best.step_s


def _points(question: JointQuestion, every: PhazeChips, row: int) -> list[Point]:
    """A chip of PHAZE's with each of its HBM, as points of the question's space."""
    design = every.design(row)
    own = {field.name: getattr(design, field.name) for field in fields(Design)}
    own["sram_mib"] = round(every.sram_bytes[row] / MEBI)
    knobs = question.space.knobs
    fixed = {knob.name: knob.values.index(own[knob.name]) if knob.name in own else 0 for knob in knobs}
    sizes = range(len(next(knob.values for knob in knobs if knob.name == "stack_gib")))
    return [tuple((fixed | {"stack_gib": size})[knob.name] for knob in knobs) for size in sizes]
