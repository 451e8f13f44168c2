"""Searches of one job, and every design scheduled, under one budget: what all comparisons of WHAM's are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design, design_of
from dovetail.papers.mappers import Mapper
from dovetail.papers.wham.cases import BASE, LIMITS, REAL
from dovetail.search.algorithms import NOTHING, Algorithm, Scored, algorithms
from dovetail.search.designs import (
    SIDES,
    Limits,
    Silicon,
    design_at,
    design_columns,
    design_space,
    mined_chips,
    silicon_at,
)
from dovetail.search.metrics import ChipFigures, metrics
from dovetail.search.mining.answers import ChipAnswer, chip_answers
from dovetail.search.mining.bounds import JobBounds
from dovetail.search.mining.load import TrainingJob, job_of
from dovetail.search.mining.miner import Mined, mined
from dovetail.search.mining.score import KNOB_OF, Question, figures_of, stage_times
from dovetail.search.mining.task import Task
from dovetail.search.space import Point, Space
from dovetail.workload.graph import FloatArray, IntArray

SEED = 1  # none of the searches here draws by chance
NUM_AT_ONCE = 256  # designs: 2 to 4 times cheaper each than 16 at once, and hardly dearer than more

Log = Callable[[str], None]  # called with what is being done


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Designs to choose from, on which chip they are built, what they may take, and how products are mapped."""

    base: Chip
    space: Space
    limits: Limits
    mapper: Mapper

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

    def tuned_by_hand(self, name: str) -> Chip:
        """A chip of the catalogue, mapped as the designs are; it too may fill as much of HBM as they."""
        return replace(self.mapper.on(chips[name]()), hbm_reserve_frac=self.base.hbm_reserve_frac)


def wham_budget(mapper: Mapper) -> Budget:
    """WHAM's, whose designs may fill HBM to the last byte."""
    base = replace(mapper.on(chips[BASE]()), hbm_reserve_frac=0.0)
    return Budget(base=base, space=design_space(), limits=LIMITS, mapper=mapper)


def real_budget(mapper: Mapper) -> Budget:
    """Around a real TPU v2: its memories, clock, links, node and calibration, and what it takes by our silicon model.

    Vector cores may be as wide as its own, so that it is one of the designs.
    """
    base, lanes = mapper.on(chips[REAL]()), design_of(chips[REAL]()).num_lanes
    space = design_space(lanes=(*SIDES, *(2 * SIDES[-1], lanes)))
    own = silicon_at(base, {name: np.array([value]) for name, value in _knobs(design_of(base)).items()})
    limits = Limits(area_mm2=float(own.area_mm2[0]), power_w=float(own.power_w[0]))
    return Budget(base=base, space=space, limits=limits, mapper=mapper)


def _knobs(design: Design) -> dict[str, int]:
    return {name: getattr(design, name) for name in ("num_tensor", "num_rows", "num_cols", "num_vector", "num_lanes")}


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


def trained_on(base: Chip, jobs: Sequence[TrainingJob], designs: Sequence[Design]) -> tuple[ChipAnswer, ...]:
    """Jobs on designs by throughput; throughput for each watt follows from it and the power."""
    return chip_answers(jobs, base, designs, metrics["throughput"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EveryStep:
    """A step of one job on every design of a space within limits, each scheduled: nothing is bounded away."""

    points: tuple[Point, ...]
    silicon: Silicon  # of all points
    step_s: FloatArray  # infinite beyond the limits
    bottleneck: tuple[str, ...]

    @property
    def inside(self) -> IntArray:
        return np.flatnonzero(np.isfinite(self.step_s))

    def known(self, question: Question) -> dict[Point, Scored]:
        """What `scored` says of every point, for a question of the same job within limits no wider."""
        [job] = question.jobs
        figures = ChipFigures(
            step_s=self.step_s,
            energy_j=np.full(len(self.points), np.nan),  # no metric used here is of energy
            power_w=self.silicon.power_w,
            price_usd=self.silicon.price_usd,
            num_devices=job.num_devices,
            num_samples=job.num_samples,
        )
        excess = self.silicon.excess_frac(question.limits)
        losses = np.exp(np.log(np.asarray(question.metric.loss(figures)) / question.reference_losses[0]))
        losses[excess > 0] = np.inf
        return {
            point: Scored(point=point, loss=loss, excess_frac=over, bottleneck=bottleneck)
            for point, loss, over, bottleneck in zip(
                self.points, losses.tolist(), excess.tolist(), self.bottleneck, strict=True
            )
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Within:
    """All designs of a space, and as chips those that keep the limits: built once for all jobs."""

    points: tuple[Point, ...]
    silicon: Silicon  # of all points
    inside: IntArray  # places of those within the limits
    chips: tuple[Chip, ...]  # of these


def within(budget: Budget) -> Within:
    points = tuple(budget.space.points())
    silicon = silicon_at(budget.base, design_columns(budget.space, points))
    inside = np.flatnonzero(silicon.excess_frac(budget.limits) == 0)
    designs = [design_at(budget.space, points[place]) for place in inside]
    chips = mined_chips(budget.base, designs, silicon.at(inside))
    return Within(points=points, silicon=silicon, inside=inside, chips=tuple(chips))


def every_step(designs: Within, job: TrainingJob, log: Log) -> EveryStep:
    """All of `designs` scheduled, some at once."""
    step_s, bottleneck = np.full(len(designs.points), np.inf), [NOTHING] * len(designs.points)
    kinds, num_inside = tuple(KNOB_OF.values()), len(designs.inside)
    for places in np.array_split(np.arange(num_inside), -(-num_inside // NUM_AT_ONCE)):
        log(f"scheduling every design, {places[0]:,} of {num_inside:,}")
        rows = designs.inside[places]
        times = stage_times(job, designs.chips[places[0] : places[-1] + 1])
        step_s[rows] = figures_of(job, times, designs.silicon.at(rows)).step_s
        kind = times.lost_s.argmax(axis=0)
        for place, row in enumerate(rows):
            if times.lost_s[kind[place], place] > 0:
                bottleneck[row] = kinds[kind[place]]
    return EveryStep(points=designs.points, silicon=designs.silicon, step_s=step_s, bottleneck=tuple(bottleneck))


class JobSearches:
    """Searches of one job under one budget, and narrower limits: bounds are tabled once, and no design scored twice.

    With `every` step known they only look up; what they ask for, and what they prove, is the same.
    """

    def __init__(self, budget: Budget, job: TrainingJob, every: EveryStep | None = None) -> None:
        self._budget, self._job, self._every = budget, job, every
        self.bounds = JobBounds(budget.question((job,)))

    def question(self, *, metric: str = "throughput", limits: Limits | None = None) -> Question:
        return replace(self._budget.question((self._job,), metric=metric), limits=limits or self._budget.limits)

    def known(self, question: Question) -> Mapping[Point, Scored]:
        return self._every.known(question) if self._every is not None else {}

    def best(
        self,
        *,
        metric: str = "throughput",
        algorithm: str = "exact",
        limits: Limits | None = None,
        trained: TrainingJob | None = None,
    ) -> Searched:
        """The design that a search chooses for the job, put to `trained`, or to the job itself."""
        question = self.question(metric=metric, limits=limits)
        [found] = found_within(question, algorithms[algorithm], self.known(question), self.bounds)
        design = design_at(question.space, found.best.point)
        [answer] = trained_on(question.base, (trained or self._job,), [design])
        return Searched(
            answer=answer,
            num_evaluated=found.num_evaluated,
            num_scheduled=found.num_scheduled,
            is_proven=found.is_proven,
        )


def found_by(question: Question, algorithm: Algorithm) -> Mined:
    [found] = found_within(question, algorithm, {})
    return found


def found_within(
    question: Question, algorithm: Algorithm, known: Mapping[Point, Scored], bounds: JobBounds | None = None
) -> tuple[Mined, ...]:
    """What a search without a budget finds; nothing where no design is within the limits."""
    most = question.space.num_points
    found = mined(
        question,
        algorithm,
        Random(SEED),
        num_most=most,
        known=known,
        keep=lambda _: None,
        watch=lambda _: None,
        bounds=bounds,
    )
    return (found,) if found is not None else ()


def forward_job(task: Task, base: Chip, *, is_single: bool) -> TrainingJob:
    """The forward pass of `task` alone, as for inference; of its whole batch or of a single sample."""
    workload = replace(task.workload, global_batch=1) if is_single else task.workload
    plan = replace(task.plan, microbatch=min(task.plan.microbatch, workload.global_batch))
    return job_of(task.name, workload, plan, task.cluster(base), is_forward_only=True)
