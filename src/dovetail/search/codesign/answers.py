"""What a joint search comes to, beside what separate searches would: systems with their plans, areas and costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.parallel.plan import Plan
from dovetail.search.codesign.joint import JointFound, joint_search, local_backend
from dovetail.search.codesign.plan_sets import PlanSet
from dovetail.search.codesign.question import Budget, JointQuestion, base_system, everything, system_space
from dovetail.search.codesign.refining import RefinedCase, RefinedSystem, system_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import built_systems, network_of, system_chip
from dovetail.search.planners.plan_space import PlanSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemAnswer:
    """A system with what it takes and costs, and the plans and figures of all cases on it."""

    system: dict[str, float]
    area_mm2: float
    power_w: float
    price_usd: float
    loss: float
    cases: tuple[RefinedCase, ...]
    network_w: float = 0.0  # of NICs, switches and optics, for each device
    network_usd: float = 0.0  # nan where not known

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
        network_w=float(built.network_w[0]),
        network_usd=float(built.network_usd[0]),
    )


def base_question(question: JointQuestion, num_devices: int) -> JointQuestion:
    """The same, but of the base chip as it is, whatever the limits: a space of one system."""
    own = {name: (value,) for name, value in base_system(question.base, num_devices, question.space).items()}
    return replace(question, space=system_space(question.base, num_devices, own), budget=Budget(), rule=everything)


def base_answer(question: JointQuestion) -> SystemAnswer | None:
    """The base chip with its best plans; nothing where some case does not fit it. Its loss is that of the metric.

    There are as many devices as the space has at the most and plans cut every case for.
    """
    [devices] = [knob.values for knob in question.space.knobs if knob.name == "num_devices"]
    for count in reversed(devices):
        base_only = replace(base_question(question, int(count)), reference_losses=(1.0,) * len(question.cases))
        scorer = Scorer(base_only)
        if scorer.unshardable_at(next(base_only.space.points())):
            continue
        found = joint_search(scorer, local_backend(scorer))
        return None if found is None else answer_of(base_only, found.best)
    return None


def with_reference(question: JointQuestion, base: SystemAnswer | None) -> JointQuestion:
    """Losses weighed by those on the base chip, so that 0.5 is twice as good; by nothing where it cannot run them."""
    losses = (1.0,) * len(question.cases) if base is None else tuple(case.loss for case in base.cases)
    return replace(question, reference_losses=losses)


def pinned(question: JointQuestion, plans: tuple[PlanSpace, ...]) -> JointQuestion:
    """The same question with other plans to choose from."""
    cases = tuple(replace(case, plans=space) for case, space in zip(question.cases, plans, strict=True))
    return replace(question, cases=cases)


def only_plan(plan: Plan, space: PlanSpace) -> PlanSpace:
    """The space of one plan, but for layers and recompute by stage."""
    return replace(
        space,
        tensor_parallel=(plan.tensor_parallel,),
        sequence_parallel=(plan.sequence_parallel,),
        context_parallel=(plan.context_parallel,),
        context_comm_type=(plan.context_comm_type,),
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
    chip_then_plan: SystemAnswer | None  # the best chip for a plan by rule of thumb, and its own best plan


def separate(question: JointQuestion, base: SystemAnswer) -> Separate:
    """A plan for the base chip, then a chip for it; and a chip by itself, then a plan for it.

    The latter chip is the best for a plan that no search chose, `thumb_plan` of each case, so that neither order is
    informed by the other.
    """
    mined = _chip_for(question, base.num_devices, tuple(case.plan for case in base.cases))
    by_itself = _chip_for(question, base.num_devices, thumb_plans(question, base.num_devices))
    return Separate(plan_then_chip=mined, chip_then_plan=None if by_itself is None else _planned(question, by_itself))


def _chip_for(question: JointQuestion, num_devices: int, plans: tuple[Plan, ...]) -> SystemAnswer | None:
    """The best system of so many devices where the plan of each case is given, but for layers and recompute."""
    spaces = tuple(only_plan(plan, case.plans) for plan, case in zip(plans, question.cases, strict=True))
    chips_for_it = pinned(_of_devices(question, num_devices), spaces)
    found = _found(chips_for_it)
    return None if found is None else answer_of(chips_for_it, found.best)


def _planned(question: JointQuestion, mined: SystemAnswer) -> SystemAnswer | None:
    """A system with the best plans for it."""
    values = {name: (value,) for name, value in mined.system.items()}
    only_this_system = replace(question, space=system_space(question.base, mined.num_devices, values))
    again = _found(only_this_system)
    return None if again is None else answer_of(only_this_system, again.best)


def thumb_plans(question: JointQuestion, num_devices: int) -> tuple[Plan, ...]:
    """What each case is trained by on the base chip without a search: `thumb_plan` of plans that fit it."""
    base_only = base_question(question, num_devices)
    scorer, [system] = Scorer(base_only), [system_at(base_only, point) for point in base_only.space.points()]
    usable_bytes = question.base.usable_bytes
    return tuple(
        thumb_plan(scorer.plan_set(case, *network_of(system)), usable_bytes) for case in range(len(base_only.cases))
    )


def thumb_plan(plan_set: PlanSet, usable_bytes: float) -> Plan:
    """The even plan that cuts the model least and fits: on the fewest devices a copy, then by the least recompute.

    Of those left, the one with the fewest tensor ranks and the smallest microbatch. It is chosen by memory alone; where
    only uneven plans fit, the one that needs the least memory.
    """
    plans, need_bytes = plan_set.plans, plan_set.need_bytes
    fits = np.flatnonzero(need_bytes <= usable_bytes)
    if not len(fits):
        return plans.plan(int(np.argmin(need_bytes)))
    some = plans.at(fits)
    copy = some.tensor_parallel * some.context_parallel * some.pipeline_parallel
    order = np.lexsort((some.microbatch, some.tensor_parallel, some.recompute, copy))
    return plans.plan(int(fits[order[0]]))


def _of_devices(question: JointQuestion, num_devices: int) -> JointQuestion:
    """The same space, but of so many devices alone."""
    values = {knob.name: knob.values for knob in question.space.knobs} | {"num_devices": (float(num_devices),)}
    return replace(question, space=system_space(question.base, num_devices, values))


def _found(question: JointQuestion) -> JointFound | None:
    scorer = Scorer(question)
    return joint_search(scorer, local_backend(scorer))


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
