"""WHAM's comparison: for each of its models the proven best chip beside hand-tuned ones and those for inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.catalog import chips
from dovetail.hardware.template import Design, design_of
from dovetail.papers.wham.searches import (
    Budget,
    Searched,
    Told,
    Within,
    every_step_s,
    forward_job,
    searched,
    trained_on,
    within,
)
from dovetail.papers.wham.shared import Mosaic, OneForAll, common_design, mosaic_of
from dovetail.search.designs import Limits
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import ChipAnswer, base_answer
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.task import Task
from dovetail.workload.graph import FloatArray

HAND_TUNED = ("wham-tpuv2", "phaze-tpuv4", "nvdla-like")  # its baselines, with the lanes of the papers
TOLERANCE = 1e-9  # two sums of the same seconds in another order
# how a chip is searched for inference: on a single sample or the training batch, and by what
READINGS = (("one sample", True, "throughput"), ("batch", False, "throughput"), ("one, per W", True, "perf/tdp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HandTuned:
    """A chip of the catalogue as it is, with its own memory, clock and node; and its cores built on the budget's."""

    name: str
    as_is: ChipAnswer
    rebuilt: ChipAnswer
    fits: bool  # the job in the chip's own memory


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryDesign:
    """What scheduling every design within the limits found: the best by throughput and by throughput/TDP."""

    num_designs: int
    design: Design
    step_s: float
    per_watt_design: Design
    per_watt_j: float  # style: step times power, least for the best


@dataclass(frozen=True, slots=True, kw_only=True)
class WhamModel:
    """One model under one budget."""

    task: Task
    hand_tuned: tuple[HandTuned, ...]
    best: Searched
    per_watt: Searched  # by throughput/TDP
    within_base_limits: Searched  # within the area and power that WHAM's TPU v2 takes
    grown: Searched  # by the critical-path heuristic
    counted: Searched  # by its exact mode
    inference: tuple[tuple[str, Searched], ...]
    every: EveryDesign | None

    @property
    def reference(self) -> ChipAnswer:
        return self.hand_tuned[0].as_is

    def gain(self, over: ChipAnswer) -> float:
        """Throughput of the best design over that of another chip."""
        return over.jobs[0].step_s / self.best.step_s

    @property
    def own_limits_gain(self) -> float:
        return self.reference.jobs[0].step_s / self.within_base_limits.step_s

    @property
    def per_watt_gain(self) -> float:
        """Throughput/TDP of the best by that, over that of WHAM's TPU v2."""
        return step_j(self.reference) / step_j(self.per_watt.answer)

    @property
    def grown_gap_frac(self) -> float:
        return self.grown.step_s / self.least_s - 1

    @property
    def counted_gap_frac(self) -> float:
        return self.counted.step_s / self.least_s - 1

    @property
    def least_s(self) -> float:
        """The shortest step of all: of every design where each was scheduled, else of the proven best."""
        return self.every.step_s if self.every else self.best.step_s

    @property
    def is_confirmed(self) -> bool:
        """Whether the best designs are proven, and scheduling every design found no better ones."""
        is_proven = self.best.is_proven and self.per_watt.is_proven
        if self.every is None:
            return is_proven
        pairs = ((self.best.step_s, self.every.step_s), (step_j(self.per_watt.answer), self.every.per_watt_j))
        return is_proven and all(abs(ours / least - 1) <= TOLERANCE for ours, least in pairs)


def step_j(answer: ChipAnswer) -> float:
    """What a chip could draw in a step, everything busy: least where throughput/TDP is best."""
    return answer.jobs[0].step_s * answer.power_w


@dataclass(frozen=True, slots=True, kw_only=True)
class WhamStudy:
    """The whole comparison. `by_multipliers`: so many at most, and how much slower the best such chip is."""

    limits: Limits
    num_designs: int  # of the space
    models: tuple[WhamModel, ...]
    common_design: OneForAll
    mosaics: tuple[Mosaic, ...]
    by_multipliers: tuple[tuple[int, float], ...]


def wham_study(tasks: Sequence[Task], budget: Budget, *, is_exhaustive: bool, told: Callable[[str], None]) -> WhamStudy:
    """All of it; with `is_exhaustive` every design within the limits is scheduled for every model."""
    designs = within(budget) if is_exhaustive else None
    jobs = [task.job(budget.base) for task in tasks]
    models, steps = [], []
    for task, job in zip(tasks, jobs, strict=True):
        found, step_s = _model(budget, task, job, designs, _prefixed(told, task.name))
        models.append(found)
        steps += [step_s] if step_s is not None else []
    told("one chip for all models")
    shared = common_design(budget, jobs, [model.best for model in models], designs, steps)
    several = [job for job in jobs if job.num_stages > 1]
    return WhamStudy(
        limits=budget.limits,
        num_designs=budget.space.num_points,
        models=tuple(models),
        common_design=shared,
        mosaics=tuple(mosaic_of(budget, job, _prefixed(told, job.name)) for job in several),
        by_multipliers=_by_multipliers(designs, steps) if designs is not None else (),
    )


def _prefixed(told: Told, name: str) -> Told:
    return lambda words: told(f"{name}: {words}")


def _model(
    budget: Budget, task: Task, job: TrainingJob, designs: Within | None, told: Told
) -> tuple[WhamModel, FloatArray | None]:
    """One model, and its step on every design where each is scheduled."""
    told("hand-tuned chips")
    tuned = hand_tuned(budget, task, job)
    own = tuned[0].as_is
    own_limits = replace(budget, limits=Limits(area_mm2=own.area_mm2, power_w=own.power_w))
    told("proven best")
    best, per_watt = (searched(budget, job, job, metric=metric) for metric in ("throughput", "perf/tdp"))
    within_base_limits = searched(own_limits, job, job)
    told("critical-path")
    grown, counted = (searched(budget, job, job, algorithm=name) for name in ("critical-path", "critical-path-exact"))
    told("searched for inference")
    inference = tuple(_for_inference(budget, task, job))
    step_s = every_step_s(designs, job, told) if designs is not None else None
    found = WhamModel(
        task=task,
        hand_tuned=tuned,
        best=best,
        per_watt=per_watt,
        within_base_limits=within_base_limits,
        grown=grown,
        counted=counted,
        inference=inference,
        every=_every(designs, step_s) if designs is not None and step_s is not None else None,
    )
    return found, step_s


def _for_inference(budget: Budget, task: Task, job: TrainingJob) -> Iterator[tuple[str, Searched]]:
    """Designs that are best for the forward pass, put to training."""
    for name, is_single, metric in READINGS:
        yield name, searched(budget, forward_job(task, budget.base, is_single=is_single), job, metric=metric)


def hand_tuned(budget: Budget, task: Task, job: TrainingJob) -> tuple[HandTuned, ...]:
    """Each as it is and rebuilt; the first is the one that the budget is of."""
    found = []
    for name in HAND_TUNED:
        chip = replace(chips[name](), hbm_reserve_frac=budget.base.hbm_reserve_frac)
        [rebuilt] = trained_on(budget.base, (job,), [design_of(chip)])
        as_is = base_answer((task,), chip, metrics["throughput"])
        found.append(HandTuned(name=name, as_is=as_is, rebuilt=rebuilt, fits=task.memory(chip).fits))
    return tuple(found)


def _every(designs: Within, step_s: FloatArray) -> EveryDesign:
    per_watt_j = step_s * designs.silicon.power_w
    return EveryDesign(
        num_designs=len(designs.designs),
        design=designs.designs[int(step_s.argmin())],
        step_s=float(step_s.min()),
        per_watt_design=designs.designs[int(per_watt_j.argmin())],
        per_watt_j=float(per_watt_j.min()),
    )


def _by_multipliers(designs: Within, steps: Sequence[FloatArray]) -> tuple[tuple[int, float], ...]:
    """By multipliers at most: how much slower the best such chip is than the best, on the geometric mean."""
    multipliers = designs.num_multipliers
    found = []
    for most in sorted({int(num) for num in multipliers}):
        slower = [step_s[multipliers <= most].min() / step_s.min() for step_s in steps]
        found.append((most, float(np.exp(np.mean(np.log(slower))))))
    return tuple(found)
