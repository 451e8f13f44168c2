"""The best chip of PHAZE's space with its plan for one of its models, and what PHAZE's stop rule would have found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design
from dovetail.papers.mappers import OURS, Mapper
from dovetail.papers.phaze import Found, Joint, OtherSearches, found, real_chip
from dovetail.papers.phaze_cases import NUM_DEVICES, Case, Terms, cluster_of
from dovetail.papers.phaze_stop import stopped_among
from dovetail.papers.published_plans import best_on_terms, terms_space
from dovetail.search.codesign.answers import base_answer, separate
from dovetail.search.codesign.joint import JointFound, SearchBackend, joint_search, local_backend
from dovetail.search.codesign.phaze_space import PhazeChips, phaze_chips
from dovetail.search.codesign.presets import PLANS, PRESETS
from dovetail.search.codesign.question import Budget, JointQuestion, base_budget, everything, system_space
from dovetail.search.codesign.question import Case as JointCase
from dovetail.search.codesign.refining import refined_system, system_at
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import system_chip
from dovetail.search.metrics import metrics
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.space import Point
from dovetail.units import MEBI
from dovetail.workload.graph import FloatArray, IntArray

PRESET = PRESETS["phaze"]
# around a real part: cores and shared SRAM as `codesign` has them by default, and HBM of PHAZE's sizes
REAL_KNOBS = ("num_tensor", "num_rows", "num_cols", "num_vector", "num_lanes", "sram_mib")
REAL_VALUES = {
    **{name: PRESETS["chip"].values[name] for name in REAL_KNOBS},
    "stack_gib": PRESET.values["stack_gib"],
}
SCORED_AT_ONCE = 32  # systems; as many as the joint search takes in one task


def chip_plans(terms: Terms) -> PlanSpace:
    """What plans chips are searched with: all of the terms where they are PHAZE's, else those mostly run with."""
    return terms_space(terms) if terms.is_published else replace(PLANS, overlap=(terms.overlap,))


def question_of(case: Case, terms: Terms, mapper: Mapper = OURS) -> JointQuestion:
    base = mapper.on(chips[PRESET.base]())
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


def real_question(case: Case, terms: Terms, mapper: Mapper) -> JointQuestion:
    """Chips around a real TPU v4 within the area and power that it takes by our silicon model, with PHAZE's HBM."""
    base = real_chip(mapper)
    space = system_space(base, NUM_DEVICES, REAL_VALUES)
    own = question_of(case, terms, mapper)
    return replace(own, base=base, space=space, budget=base_budget(base, space), rule=everything)


def best_joint(
    case: Case, terms: Terms, mapper: Mapper = OURS, hands_of: Callable[[Scorer], SearchBackend] = local_backend
) -> Joint | None:
    """The proven best chip for `case` by the plans of `chip_plans`, then given the best plan of the terms.

    So its bound is that of the former; nothing where no chip fits any plan. Separate searches and PHAZE's stop rule,
    which take longer than the search itself, are beside it where the mapper is ours.
    """
    scorer = Scorer(question_of(case, terms, mapper))
    best = joint_search(scorer, hands_of(scorer))
    if best is None:
        return None
    found = joint_of(case, terms, scorer, best)
    return replace(found, beside=other_searches(case, terms, scorer, best)) if mapper == OURS else found


def best_around_real(case: Case, terms: Terms, mapper: Mapper = OURS) -> Joint | None:
    """The proven best chip around a real TPU v4."""
    scorer = Scorer(real_question(case, terms, mapper))
    best = joint_search(scorer, local_backend(scorer))
    return None if best is None else joint_of(case, terms, scorer, best)


def joint_of(case: Case, terms: Terms, scorer: Scorer, best: JointFound) -> Joint:
    question, census = scorer.question, best.census
    return Joint(
        chip=chip_of_point(question, best.best.point),
        found=_found(case, terms, question, best),
        num_chips=census.num_systems,
        num_evaluated=census.num_scored,
        num_pruned=census.num_pruned,
        num_infeasible=census.num_unshardable + census.num_out_of_memory,
    )


def other_searches(case: Case, terms: Terms, scorer: Scorer, best: JointFound) -> OtherSearches:
    """What separate searches and PHAZE's stop rule come to."""
    question = scorer.question
    stop, stopped_s = stop_of(question, scorer)
    steps = separate_steps(question)
    num_sequences = case.workload(terms).global_batch
    return OtherSearches(
        searched_sequences_per_s=num_sequences / best.best.cases[0].step_s,
        plan_then_chip_sequences_per_s=num_sequences / steps.plan_then_chip_s if steps else None,
        chip_then_plan_sequences_per_s=_a_second(num_sequences, steps.chip_then_plan_s) if steps else None,
        stopped_chips=stop,
        stopped_sequences_per_s=num_sequences / stopped_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateSteps:
    """Steps of PHAZE's TPU v4 by its best plan, of the best chip for that plan, and of a chip by itself.

    The latter is the best for a plan by rule of thumb, then given its own best; none where that plan fits no chip.
    """

    base_s: float
    plan_then_chip_s: float
    chip_then_plan_s: float | None


def _a_second(num_sequences: int, step_s: float | None) -> float | None:
    return None if step_s is None else num_sequences / step_s


def separate_steps(question: JointQuestion) -> SeparateSteps | None:
    """Nothing where no plan fits the base."""
    base = base_answer(question)
    if base is None:
        return None
    one_by_one = separate(question, base)
    first, second = one_by_one.plan_then_chip, one_by_one.chip_then_plan
    assert first is not None, "the plan fits the base, which is one of the chips"
    return SeparateSteps(
        base_s=base.cases[0].step_s,
        plan_then_chip_s=first.cases[0].step_s,
        chip_then_plan_s=None if second is None else second.cases[0].step_s,
    )


def _found(case: Case, terms: Terms, question: JointQuestion, best: JointFound) -> Found:
    cluster, workload = cluster_of(chip_of_point(question, best.best.point), terms), case.workload(terms)
    [own] = best.best.cases
    bound_s = own.step_s * min(1.0, best.bound / best.best.loss)
    searched = found(workload, cluster, own.plan, own.step_s, bound_s)
    planned = best_on_terms(workload, cluster, terms)
    if planned is None or planned.step_s >= searched.step_s:
        return searched
    return replace(planned, bound_s=min(bound_s, planned.step_s))


def chip_of_point(question: JointQuestion, point: Point) -> Chip:
    return system_chip(question.base, system_at(question, point))


def stop_of(question: JointQuestion, scorer: Scorer) -> tuple[int, float]:
    """How many chips PHAZE's outer loop looks at, each with its best HBM, and the fastest step among them.

    The best HBM is the largest: it is as fast as the others, and every plan that fits those fits it.
    """
    every = phaze_chips()
    scores: dict[int, SystemScore] = {}

    def tokens_per_s(rows: IntArray) -> FloatArray:
        points = [_point(question, every, int(row)) for row in rows]
        chunks = (points[at : at + SCORED_AT_ONCE] for at in range(0, len(points), SCORED_AT_ONCE))
        scored = [score for chunk in chunks for score in scorer.score(chunk, np.inf)]
        scores.update(zip((int(row) for row in rows), scored, strict=True))
        return np.array([1 / score.loss for score in scored])

    stop = stopped_among(every.area_mm2, tokens_per_s)
    [best] = refined_system(scorer, scores[stop.best_row], np.inf).cases
    return stop.num_chips, best.step_s


def _point(question: JointQuestion, every: PhazeChips, row: int) -> Point:
    """A chip of PHAZE's with the most HBM, as a point of the question's space."""
    design = every.design(row)
    own = {field.name: getattr(design, field.name) for field in fields(Design)}
    own["sram_mib"] = round(every.sram_bytes[row] / MEBI)
    knobs = question.space.knobs
    fixed = {knob.name: knob.values.index(own[knob.name]) if knob.name in own else 0 for knob in knobs}
    [sizes] = [knob.values for knob in knobs if knob.name == "stack_gib"]
    return tuple((fixed | {"stack_gib": int(np.argmax(sizes))})[knob.name] for knob in knobs)
