"""WHAM's comparison: for each of its models the proven best chip beside hand-tuned ones and those for inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.template import Design, design_of
from dovetail.papers.mappers import OURS, PAPERS, Mapper
from dovetail.papers.wham.convergence import Convergence, convergence
from dovetail.papers.wham.searches import (
    Budget,
    EveryStep,
    JobSearches,
    Log,
    Searched,
    every_step,
    forward_job,
    real_budget,
    trained_on,
    wham_budget,
    within,
)
from dovetail.papers.wham.shared import Mosaic, OneForAll, common_design, mosaic_of
from dovetail.search.designs import Limits, design_at
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import ChipAnswer, base_answer
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.task import Task

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
class RealPart:
    """A real TPU v2, and the best designs built around it within the area and power that it takes itself."""

    as_is: ChipAnswer
    best: Searched
    per_watt: Searched

    @property
    def gain(self) -> float:
        return self.as_is.jobs[0].step_s / self.best.step_s

    @property
    def per_watt_gain(self) -> float:
        return step_j(self.as_is) / step_j(self.per_watt.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heuristics:
    """WHAM's own search, its exact mode, and how soon searches are near the best."""

    grown: Searched  # by the critical-path heuristic
    counted: Searched  # by its exact mode
    convergence: Convergence


@dataclass(frozen=True, slots=True, kw_only=True)
class WhamModel:
    """One model under one budget."""

    task: Task
    hand_tuned: tuple[HandTuned, ...]
    best: Searched
    per_watt: Searched  # by throughput/TDP
    within_base_limits: Searched  # within the area and power that WHAM's TPU v2 takes
    inference: tuple[tuple[str, Searched], ...]
    real: RealPart
    every: EveryDesign | None
    heuristics: Heuristics | None  # where every design was scheduled

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

    def gap_frac(self, found: Searched) -> float:
        """How much longer a step is than the shortest of all: of every design where each was scheduled."""
        return found.step_s / (self.every.step_s if self.every else self.best.step_s) - 1

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
    """The whole comparison by one mapper. `by_multipliers`: so many at most, and how much slower the best such is.

    Sharing one chip, and chips by stage, are of no claim: without `has_shared` they are left out.
    """

    limits: Limits
    num_designs: int  # of the space
    models: tuple[WhamModel, ...]
    common_design: OneForAll | None
    mosaics: tuple[Mosaic, ...]
    by_multipliers: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wham:
    """The comparison by our mapper, and by the one that the paper likely had."""

    ours: WhamStudy
    by_paper_mapper: WhamStudy


def wham(tasks: Sequence[Task], *, is_exhaustive: bool, log: Log) -> Wham:
    """WHAM's budget by both mappers; with `is_exhaustive` every design within the limits is scheduled."""

    def study(mapper: Mapper) -> WhamStudy:
        budgets = wham_budget(mapper), real_budget(mapper)
        return wham_study(tasks, *budgets, is_exhaustive=is_exhaustive, has_shared=mapper == OURS, log=log)

    return Wham(by_paper_mapper=study(PAPERS), ours=study(OURS))


def step_name(task_name: str, mapper: Mapper) -> str:
    """The name of a step that is logged."""
    return task_name if mapper == OURS else f"{task_name} by the paper's mapper"


def wham_study(
    tasks: Sequence[Task],
    budget: Budget,
    around_real: Budget,
    *,
    is_exhaustive: bool,
    has_shared: bool,
    log: Callable[[str], None],
) -> WhamStudy:
    """All of it; with `is_exhaustive` every design within the limits is scheduled for every model."""
    jobs = [task.job(budget.base) for task in tasks]
    designs = within(budget) if is_exhaustive else None
    models, steps = [], []
    for task, job in zip(tasks, jobs, strict=True):
        tell = _prefixed(log, step_name(task.name, budget.mapper))
        every = every_step(designs, job, tell) if designs is not None else None
        models.append(_model(budget, around_real, task, job, every, tell))
        steps += [every] if every is not None else []
    shared, mosaics = None, []
    if has_shared:
        log("one chip for all models")
        shared = common_design(budget, jobs, [model.best for model in models], steps)
        mosaics = [mosaic_of(budget, job, _prefixed(log, job.name)) for job in jobs if job.num_stages > 1]
    return WhamStudy(
        limits=budget.limits,
        num_designs=budget.space.num_points,
        models=tuple(models),
        common_design=shared,
        mosaics=tuple(mosaics),
        by_multipliers=_by_multipliers(budget, steps) if steps else (),
    )


def _prefixed(log: Log, name: str) -> Log:
    return lambda words: log(f"{name}: {words}")


def _model(
    budget: Budget, around_real: Budget, task: Task, job: TrainingJob, every: EveryStep | None, log: Log
) -> WhamModel:
    log("hand-tuned chips")
    tuned = hand_tuned(budget, task, job)
    own = tuned[0].as_is
    searches = JobSearches(budget, job, every)
    log("proven best")
    best, per_watt = (searches.best(metric=metric) for metric in ("throughput", "perf/tdp"))
    within_base_limits = searches.best(limits=Limits(area_mm2=own.area_mm2, power_w=own.power_w))
    log("searched for inference")
    inference = tuple(_for_inference(budget, task, job))
    log("around a real TPU v2")
    real = _real(around_real, task)
    if every is not None:
        log("heuristics")
    return WhamModel(
        task=task,
        hand_tuned=tuned,
        best=best,
        per_watt=per_watt,
        within_base_limits=within_base_limits,
        inference=inference,
        real=real,
        every=_every(budget, every) if every is not None else None,
        heuristics=_heuristics(searches) if every is not None else None,
    )


def _heuristics(searches: JobSearches) -> Heuristics:
    grown, counted = (searches.best(algorithm=name) for name in ("critical-path", "critical-path-exact"))
    return Heuristics(grown=grown, counted=counted, convergence=convergence(searches))


def _for_inference(budget: Budget, task: Task, job: TrainingJob) -> Iterator[tuple[str, Searched]]:
    """Designs that are best for the forward pass, put to training."""
    by_batch = {
        is_single: JobSearches(budget, forward_job(task, budget.base, is_single=is_single))
        for is_single in (True, False)
    }
    for name, is_single, metric in READINGS:
        yield name, by_batch[is_single].best(metric=metric, trained=job)


def _real(around: Budget, task: Task) -> RealPart:
    job = task.job(around.base)
    [as_is] = trained_on(around.base, (job,), [design_of(around.base)])
    searches = JobSearches(around, job)
    return RealPart(as_is=as_is, best=searches.best(), per_watt=searches.best(metric="perf/tdp"))


def hand_tuned(budget: Budget, task: Task, job: TrainingJob) -> tuple[HandTuned, ...]:
    """Each as it is and rebuilt; the first is the one that the budget is of."""
    found = []
    for name in HAND_TUNED:
        chip = budget.tuned_by_hand(name)
        [rebuilt] = trained_on(budget.base, (job,), [design_of(chip)])
        as_is = base_answer((task,), chip, metrics["throughput"])
        found.append(HandTuned(name=name, as_is=as_is, rebuilt=rebuilt, fits=task.memory(chip).fits))
    return tuple(found)


def _every(budget: Budget, every: EveryStep) -> EveryDesign:
    per_watt_j = every.step_s * every.silicon.power_w
    best, per_watt = int(every.step_s.argmin()), int(per_watt_j.argmin())
    return EveryDesign(
        num_designs=len(every.inside),
        design=design_at(budget.space, every.points[best]),
        step_s=float(every.step_s[best]),
        per_watt_design=design_at(budget.space, every.points[per_watt]),
        per_watt_j=float(per_watt_j[per_watt]),
    )


def _by_multipliers(budget: Budget, steps: Sequence[EveryStep]) -> tuple[tuple[int, float], ...]:
    """By multipliers at most: how much slower the best such chip is than the best, on the geometric mean."""
    inside = steps[0].inside  # the limits are the same for all
    designs = [design_at(budget.space, steps[0].points[row]) for row in inside]
    multipliers = np.array([one.num_tensor * one.num_rows * one.num_cols for one in designs])
    found = []
    for most in sorted(set(multipliers.tolist())):
        kept = inside[multipliers <= most]
        slower = [every.step_s[kept].min() / every.step_s.min() for every in steps]
        found.append((most, float(np.exp(np.mean(np.log(slower))))))
    return tuple(found)
