"""Searches of one job, and every design scheduled, under one budget: what all comparisons of WHAM's are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design
from dovetail.papers.wham.cases import BASE, LIMITS
from dovetail.search.algorithms import Algorithm, Scored, algorithms
from dovetail.search.designs import Limits, Silicon, design_at, design_space, mined_chips, silicon_of
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import ChipAnswer, chip_answers
from dovetail.search.mining.load import TrainingJob, job_of
from dovetail.search.mining.miner import Mined, mined
from dovetail.search.mining.score import Question, figures_of, stage_times
from dovetail.search.mining.task import Task
from dovetail.search.space import Point, Space
from dovetail.workload.graph import FloatArray

SEED = 1  # none of the searches here draws by chance
NUM_AT_ONCE = 256  # designs: 2 to 4 times cheaper each than 16 at once, and hardly dearer than more

Told = Callable[[str], None]  # what is being done, for who waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Designs to choose from, on which chip they are built, and what they may take."""

    base: Chip
    space: Space
    limits: Limits

    def question(
        self, jobs: Sequence[TrainingJob], *, metric: str = "throughput", reference_losses: Sequence[float] = (1.0,)
    ) -> Question:
        """Which design is best for `jobs`."""
        return Question(
            jobs=tuple(jobs),
            base=self.base,
            space=self.space,
            limits=self.limits,
            metric=metrics[metric],
            reference_losses=tuple(reference_losses),
        )


def wham_budget() -> Budget:
    """WHAM's, whose designs may fill HBM to the last byte."""
    return Budget(base=replace(chips[BASE](), hbm_reserve_frac=0.0), space=design_space(), limits=LIMITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The design that a search chose, what training comes to on it (by throughput), and what the search took."""

    answer: ChipAnswer
    num_evaluated: int
    num_scheduled: int
    is_proven: bool

    @property
    def design(self) -> Design:
        return self.answer.design

    @property
    def step_s(self) -> float:
        return self.answer.jobs[0].step_s


def searched(
    budget: Budget, job: TrainingJob, trained: TrainingJob, *, metric: str = "throughput", algorithm: str = "exact"
) -> Searched:
    """The best design for `job`, put to `trained`."""
    found = found_by(budget.question((job,), metric=metric), algorithms[algorithm])
    [answer] = trained_on(budget.base, (trained,), [design_at(budget.space, found.best.point)])
    return Searched(
        answer=answer,
        num_evaluated=found.num_evaluated,
        num_scheduled=found.num_scheduled,
        is_proven=found.is_proven,
    )


def found_by(question: Question, algorithm: Algorithm) -> Mined:
    [found] = found_within(question, algorithm, {})
    return found


def found_within(question: Question, algorithm: Algorithm, known: Mapping[Point, Scored]) -> tuple[Mined, ...]:
    """What a search without a budget finds; nothing where no design is within the limits."""
    most = question.space.num_points
    found = mined(
        question, algorithm, Random(SEED), num_most=most, known=known, keep=lambda _: None, watch=lambda _: None
    )  # fmt: skip
    return (found,) if found is not None else ()


def trained_on(base: Chip, jobs: Sequence[TrainingJob], designs: Sequence[Design]) -> tuple[ChipAnswer, ...]:
    """Jobs on designs by throughput; throughput for each watt follows from it and the power."""
    return chip_answers(jobs, base, designs, metrics["throughput"])


def forward_job(task: Task, base: Chip, *, is_single: bool) -> TrainingJob:
    """The forward pass of `task` alone, as for inference; of its whole batch or of a single sample."""
    workload = replace(task.workload, global_batch=1) if is_single else task.workload
    plan = replace(task.plan, microbatch=min(task.plan.microbatch, workload.global_batch))
    return job_of(task.name, workload, plan, task.cluster(base), is_forward_only=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Within:
    """All designs that keep a budget."""

    designs: tuple[Design, ...]
    silicon: Silicon
    chips: tuple[Chip, ...]

    @property
    def num_multipliers(self) -> FloatArray:
        return np.array([one.num_tensor * one.num_rows * one.num_cols for one in self.designs], dtype=np.float64)


def within(budget: Budget) -> Within:
    every = [design_at(budget.space, point) for point in budget.space.points()]
    silicon = silicon_of(budget.base, every)
    inside = np.flatnonzero(silicon.excess_frac(budget.limits) == 0)
    designs, kept = [every[row] for row in inside], silicon.at(inside)
    return Within(designs=tuple(designs), silicon=kept, chips=tuple(mined_chips(budget.base, designs, kept)))


def every_step_s(designs: Within, job: TrainingJob, told: Told) -> FloatArray:
    """A step of `job` on every one of `designs`, each scheduled: nothing is bounded away."""
    found = []
    for first in range(0, len(designs.chips), NUM_AT_ONCE):
        rows = np.arange(first, min(first + NUM_AT_ONCE, len(designs.chips)))
        told(f"scheduling every design, {first:,} of {len(designs.chips):,}")
        times = stage_times(job, designs.chips[first : first + NUM_AT_ONCE])
        found.append(np.asarray(figures_of(job, times, designs.silicon.at(rows)).step_s))
    return np.concatenate(found)
