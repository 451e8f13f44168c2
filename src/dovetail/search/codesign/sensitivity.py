"""What binds the best system, and what a little more of a limit or a resource buys.

Of a limit: the least that it must be raised for a better system, and the best system without it
(`budget_sensitivity`). Of a
resource: what the system with its plans gains from a tenth more, as if that were free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.search.codesign.answers import SystemAnswer, chip_of
from dovetail.search.codesign.budget_sensitivity import (
    RAISED_FRAC,
    BudgetSensitivity,
    RelaxedBudget,
    budget_sensitivity,
)
from dovetail.search.codesign.joint import CLOSE_FRAC
from dovetail.search.codesign.question import JointQuestion, system_space
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.metrics import ChipFigures
from dovetail.step.step import training_step
from dovetail.units import GIBI

PERTURBATION_FRAC = 0.10  # as `evaluate` asks of resources
GIBS_FRAC = (0.05, 0.10, 0.15, 0.20, RAISED_FRAC)  # of the memory, more


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSensitivity:
    """A resource of each device, how much of it there is in `unit`, and the gain from `more` of it."""

    name: str
    amount: float
    unit: str
    more: float
    gain_frac: float

    @property
    def gain_frac_per_unit(self) -> float:
        return self.gain_frac / self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Of the best system: every limit that is set, alone and together, and resources, the most useful first."""

    limits: tuple[BudgetSensitivity, ...]
    resources: tuple[ResourceSensitivity, ...]
    without_limits: RelaxedBudget | None = None  # all of them
    together: RelaxedBudget | None = None  # the fewest limits that bind together, where none does alone


def sensitivity_of(scorer: Scorer, best: SystemAnswer) -> Sensitivity:
    resources = [*_rates(scorer.question, best), _memory(scorer, best)]
    limits = budget_sensitivity(scorer, best)
    return Sensitivity(
        limits=limits.each,
        resources=tuple(sorted(resources, key=lambda one: -one.gain_frac)),
        without_limits=limits.without_all,
        together=limits.together,
    )


def _rates(question: JointQuestion, best: SystemAnswer) -> Iterator[ResourceSensitivity]:
    """What a tenth more of each rate of the device gains, with the same plans, at the same power and price."""
    chip = chip_of(question, best)
    before = _loss(question, best, question.cluster(best.system, chip))
    for name, (amount, unit, changed) in _perturbed(chip, question.cases[0].workload.precision.compute).items():
        gain_frac = before / _loss(question, best, question.cluster(best.system, changed)) - 1.0
        yield ResourceSensitivity(
            name=name,
            amount=amount,
            unit=unit,
            more=PERTURBATION_FRAC * amount,
            gain_frac=gain_frac if abs(gain_frac) > CLOSE_FRAC else 0.0,
        )


def _perturbed(chip: Chip, dtype: str) -> dict[str, tuple[float, str, Chip]]:
    """How much of each rate `chip` has, in which unit, and the chip with a tenth more of it."""
    more, vector, hbm = 1 + PERTURBATION_FRAC, chip.vector, chip.hbm
    faster_vector = replace(vector, peak_flop_per_s=vector.peak_flop_per_s * more)
    faster_hbm = replace(hbm, bandwidth_bytes_per_s=hbm.bandwidth_bytes_per_s * more)
    links, sram = chip.interconnect_bytes_per_s, chip.sram
    faster_sram = replace(sram, bandwidth_bytes_per_s=sram.bandwidth_bytes_per_s * more)
    found = {
        "tensor rate": (chip.peak_flop_per_s(dtype), "flop_per_s", replace(chip, tensor=chip.tensor.scaled(more))),
        "vector rate": (vector.peak_flop_per_s, "flop_per_s", replace(chip, vector=faster_vector)),
        "HBM bandwidth": (hbm.bandwidth_bytes_per_s, "bytes_per_s", replace(chip, hbm=faster_hbm)),
        "SRAM bandwidth": (sram.bandwidth_bytes_per_s, "bytes_per_s", replace(chip, sram=faster_sram)),
        "links": (links, "bytes_per_s", replace(chip, interconnect_bytes_per_s=links * more)),
    }
    if (memory := chip.vector_memory) is not None:
        faster = replace(memory, bandwidth_bytes_per_s=memory.bandwidth_bytes_per_s * more)
        found["vector memory bandwidth"] = (
            memory.bandwidth_bytes_per_s,
            "bytes_per_s",
            replace(chip, vector_memory=faster),
        )
    return found


def _loss(question: JointQuestion, best: SystemAnswer, cluster: Cluster) -> float:
    """Of all cases with the plans that they have."""
    losses = []
    for case, case_answer in zip(question.cases, best.cases, strict=True):
        graph = case.workload.training_graph()
        step = training_step(graph, case_answer.plan, cluster, case.workload.precision)
        figures = ChipFigures(
            step_s=step.step_s,
            energy_j=step.energy_j + best.network_w * best.num_devices * step.step_s,
            power_w=best.power_w + best.network_w,
            price_usd=best.price_usd + best.network_usd,
            num_devices=best.num_devices,
            num_samples=graph.num_tokens,
        )
        losses.append([float(question.metric.loss(figures))])
    return float(question.combined(np.array(losses))[0])


def _memory(scorer: Scorer, best: SystemAnswer) -> ResourceSensitivity:
    """The first of up to a quarter more GiB that a better plan of equal stages fits, at what they cost."""
    question, gib = scorer.question, best.system["stack_gib"]
    values = {name: (value,) for name, value in best.system.items()}
    stacks = (gib, *(gib * (1 + frac) for frac in GIBS_FRAC))
    space = system_space(question.base, best.num_devices, {**values, "stack_gib": stacks})
    scorer_of_space = scorer.over(space)
    first, *larger = scorer_of_space.score(list(space.points()), math.inf)
    amount = best.system["hbm_stacks"] * gib * GIBI
    for frac, score in zip(GIBS_FRAC, larger, strict=True):
        if score.loss < first.loss * (1 - CLOSE_FRAC):
            gain_frac = first.loss / score.loss - 1.0
            return ResourceSensitivity(
                name="HBM capacity", amount=amount, unit="bytes", more=frac * amount, gain_frac=gain_frac
            )
    return ResourceSensitivity(
        name="HBM capacity", amount=amount, unit="bytes", more=RAISED_FRAC * amount, gain_frac=0.0
    )
