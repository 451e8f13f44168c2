"""From the base chip to the best system, one change at a time: what each is worth, and the chance that all of it holds.

Parts of the chip change in a fixed order, with the plans of the base chip as long as they fit, else with those of the
best system; devices and plans change last. What a part is worth depends on what changed before it, so the order is part
of the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dovetail.evaluate import memory_use
from dovetail.hardware.families import left_out_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard
from dovetail.search.codesign.answers import SystemAnswer
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.systems import Built, built_systems
from dovetail.search.metrics import ChipFigures
from dovetail.step.step import training_step

PARTS = {
    "arrays": ("num_tensor", "num_rows", "num_cols", "dataflow", "core_buffer_kib"),
    "vector cores": ("num_vector", "num_lanes", "register_bytes_per_lane"),
    "vector memory": ("vmem_mib", "vmem_bytes_per_clock"),
    "shared SRAM": ("sram_mib", "sram_bytes_per_clock"),
    "HBM": ("hbm_stacks", "stack_gib"),
    "clock": ("clock_mhz",),
    "network": ("endpoint", "link_gb_per_s", "network"),
}
LAST = "devices and plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One part of a system changed: the knobs before and after, and what the system comes to with it.

    `gain_frac` is over the base, of this change and all before it; `own_frac` is what this one adds to that. `fits` is
    false where neither the base's plans nor the best's fit a chip on the way.
    """

    part: str
    before: dict[str, float]
    after: dict[str, float]
    gain_frac: float
    own_frac: float
    area_mm2: float
    power_w: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The changes in order, which add up to the gain; `chance_frac` is that the best beats the base at all.

    `family_error_frac` is how far steps of the base's family are off on chips that it was not fitted on, a standard
    deviation.
    """

    changes: tuple[Change, ...]
    chance_frac: float
    family_error_frac: float

    @property
    def gain_frac(self) -> float:
        return self.changes[-1].gain_frac


def waterfall(
    question: JointQuestion, base: SystemAnswer, best: SystemAnswer, error_frac: float | None = None
) -> Waterfall:
    """Losses of the question are over those of `base`; parts that are the same in both are left out.

    `error_frac` is that of a step of the base, as its interval has it; the family's own, where none is given.
    """
    system, plans = dict(base.system), tuple(case.plan for case in base.cases)
    last_plans = tuple(case.plan for case in best.cases)
    begun = _loss(question, system, plans, _built(question, system))
    changes, gain_frac = [], 0.0
    for part, knobs in (*PARTS.items(), (LAST, ("num_devices",))):
        changed = {name: best.system[name] for name in knobs if best.system[name] != system[name]}
        if not changed and part != LAST:
            continue
        before = {name: system[name] for name in changed}
        system |= changed
        if part == LAST or not _fit(question, system, plans):
            plans = last_plans
        built = _built(question, system)
        reached_frac = begun / _loss(question, system, plans, built) - 1.0
        changes.append(
            Change(
                part=part,
                before=before,
                after=changed,
                gain_frac=reached_frac,
                own_frac=reached_frac - gain_frac,
                area_mm2=float(built.area_mm2[0]),
                power_w=float(built.power_w[0]),
                fits=_fit(question, system, plans),
            )
        )
        gain_frac = reached_frac
    if error_frac is None:
        error_frac = left_out_of(question.base.calibration).spread_frac
    chance = chance_frac(gain_frac, error_frac)
    return Waterfall(changes=tuple(changes), chance_frac=chance, family_error_frac=error_frac)


def chance_frac(gain_frac: float, error_frac: float) -> float:
    """That a gain is above 0 where both figures are off by log-normal errors of their own.

    An error common to both would cancel; how much of it is common was not measured, so none is taken to be.
    """
    return NormalDist().cdf(math.log1p(gain_frac) / (error_frac * math.sqrt(2)))


def _fit(question: JointQuestion, system: dict[str, float], plans: tuple[Plan, ...]) -> bool:
    """Whether memory holds every case by its plan; a plan of other devices than a system has is none of it."""
    cluster = question.cluster(system)
    for case, plan in zip(question.cases, plans, strict=True):
        if plan.num_devices != cluster.num_devices:
            return False
        sharded = shard(case.workload.training_graph(), plan)
        if not memory_use(sharded, case.workload.precision, *usable_by_stage(plan, cluster)).fits:
            return False
    return True


def _built(question: JointQuestion, system: dict[str, float]) -> Built:
    return built_systems(question.base, {name: np.array([value]) for name, value in system.items()})


def _loss(question: JointQuestion, system: dict[str, float], plans: tuple[Plan, ...], built: Built) -> float:
    """Of all cases by the plans given."""
    num_devices = int(system["num_devices"])
    cluster = question.cluster(system)
    losses = []
    for case, plan in zip(question.cases, plans, strict=True):
        graph = case.workload.training_graph()
        step = training_step(graph, plan, cluster, case.workload.precision)
        figures = ChipFigures(
            step_s=step.step_s,
            energy_j=step.energy_j + float(built.network_w[0]) * num_devices * step.step_s,
            power_w=float(built.joined_w[0]),
            price_usd=float(built.joined_usd[0]),
            num_devices=num_devices,
            num_samples=graph.num_tokens,
        )
        losses.append([float(question.metric.loss(figures))])
    return float(question.combined(np.array(losses))[0])
