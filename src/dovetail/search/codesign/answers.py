"""What a joint search comes to, beside what separate searches would: systems with their plans, areas and costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.search.codesign.joint import JointFound, joint_search, own_hands
from dovetail.search.codesign.question import Budget, JointQuestion, everything, system_space
from dovetail.search.codesign.refining import RefinedCase, RefinedSystem, system_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import built_systems, system_chip
from dovetail.search.plan_space import PlanSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemAnswer:
    """A system with what it takes and costs, and the plans and figures of all cases on it."""

    system: dict[str, float]
    area_mm2: float
    power_w: float
    price_usd: float
    loss: float
    cases: tuple[RefinedCase, ...]

    @property
    def num_devices(self) -> int:
        return int(self.system["num_devices"])


def answer_of(question: JointQuestion, found: RefinedSystem) -> SystemAnswer:
    system = system_at(question, found.point)
    built = built_systems(question.base, {name: np.array([value]) for name, value in system.items()})
    return SystemAnswer(
        system=system,
        area_mm2=float(built.area_mm2[0]),
        power_w=float(built.power_w[0]),
        price_usd=float(built.price_usd[0]),
        loss=found.loss,
        cases=found.cases,
    )


def base_question(question: JointQuestion) -> JointQuestion:
    """The same, but of the base chip's own cores and memories, whatever the limits: a space of one system.

    What the space leaves no choice of, such as links, is as it is for all; of devices, the most.
    """
    fixed = {knob.name: knob.values for knob in question.space.knobs if len(knob.values) == 1}
    [devices] = [knob.values for knob in question.space.knobs if knob.name == "num_devices"]
    space = system_space(question.base, int(devices[-1]), fixed)
    return replace(question, space=space, budget=Budget(), rule=everything)


def base_answer(question: JointQuestion) -> SystemAnswer | None:
    """The base chip with its best plans; nothing where some case does not fit it. Its loss is that of the metric."""
    own = replace(base_question(question), reference_losses=(1.0,) * len(question.cases))
    scorer = Scorer(own)
    found = joint_search(scorer, own_hands(scorer))
    return None if found is None else answer_of(own, found.best)


def with_reference(question: JointQuestion, base: SystemAnswer | None) -> JointQuestion:
    """Losses weighed by those on the base chip, so that 0.5 is twice as good; by nothing where it cannot run them."""
    losses = (1.0,) * len(question.cases) if base is None else tuple(case.loss for case in base.cases)
    return replace(question, reference_losses=losses)


def pinned(question: JointQuestion, plans: tuple[PlanSpace, ...]) -> JointQuestion:
    """The same question with other plans to choose from."""
    cases = tuple(replace(case, plans=space) for case, space in zip(question.cases, plans, strict=True))
    return replace(question, cases=cases)


def only_plan(case: RefinedCase, space: PlanSpace) -> PlanSpace:
    """The space of the one plan that a case has, but for layers and recompute by stage."""
    plan = case.plan
    return replace(
        space,
        tensor_parallel=(plan.tensor_parallel,),
        sequence_parallel=(plan.sequence_parallel,),
        context_parallel=(plan.context_parallel,),
        context_exchange=(plan.context_exchange,),
        pipeline_parallel=(plan.pipeline_parallel,),
        interleave=(plan.interleave,),
        data_parallel=(plan.data_parallel,),
        expert_parallel=(plan.expert_parallel,),
        zero_stage=(plan.zero_stage,),
        microbatch=(plan.microbatch,),
        schedule=(plan.schedule,),
        axis_order=(plan.axis_order,),
        overlap=(plan.overlap,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Separate:
    """What one search after the other comes to, in the same space: losses as those of the joint answer."""

    plan_then_chip: SystemAnswer | None  # the base's best plan, and the best chip for it
    chip_then_plan: SystemAnswer | None  # that chip, and its own best plan


def separate(question: JointQuestion, base: SystemAnswer) -> Separate:
    """Plan for the base chip, then a chip for this plan; then a plan for this chip."""
    spaces = tuple(only_plan(own, case.plans) for own, case in zip(base.cases, question.cases, strict=True))
    chips_for_it = pinned(_of_devices(question, base.num_devices), spaces)  # a plan is for so many devices
    first = _found(chips_for_it)
    if first is None:
        return Separate(plan_then_chip=None, chip_then_plan=None)
    mined = answer_of(chips_for_it, first.best)
    values = {name: (value,) for name, value in mined.system.items()}
    space = system_space(question.base, mined.num_devices, values)
    again = _found(replace(question, space=space))
    return Separate(
        plan_then_chip=mined,
        chip_then_plan=None if again is None else answer_of(replace(question, space=space), again.best),
    )


def _of_devices(question: JointQuestion, num_devices: int) -> JointQuestion:
    """The same space, but of so many devices alone."""
    values = {knob.name: knob.values for knob in question.space.knobs} | {"num_devices": (float(num_devices),)}
    return replace(question, space=system_space(question.base, num_devices, values))


def _found(question: JointQuestion) -> JointFound | None:
    scorer = Scorer(question)
    return joint_search(scorer, own_hands(scorer))


def chip_of(question: JointQuestion, answer: SystemAnswer) -> Chip:
    return system_chip(question.base, answer.system)


def gain_frac(answer: SystemAnswer, base: SystemAnswer, weights: tuple[float, ...]) -> float:
    """How much better one system is than another, on the weighted geometric mean of its cases."""
    total = sum(weights)
    logs = [
        weight / total * math.log(other.loss / own.loss)
        for own, other, weight in zip(answer.cases, base.cases, weights, strict=True)
    ]
    return math.exp(sum(logs)) - 1.0
