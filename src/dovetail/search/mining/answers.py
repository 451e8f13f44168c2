"""What training comes to on chips that are worth telling of: the best designs, and those that others tuned by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.catalog import chips as catalogue
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design, design_of
from dovetail.search.designs import Limits, Silicon, design_at, design_columns, mined_chips, silicon_at, silicon_of
from dovetail.search.metrics import Metric
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.score import Question, figures_of, stage_times
from dovetail.search.mining.task import Task
from dovetail.search.space import Point, Space

HAND_TUNED = ("tpuv2-like", "tpuv4-like", "nvdla-like")  # TPU v2, TPU v4 and NVDLA in the template's words


def template_names() -> tuple[str, ...]:
    """Chips of the catalogue that designs can be built on."""
    return tuple(name for name, make in catalogue.items() if make().tensor.tiling.is_array)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """One job on one chip: its loss and figure by the requested metric, a step, and its energy."""

    loss: float
    figure: float
    step_s: float
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipAnswer:
    """A chip with what it takes, and what every job comes to on it."""

    design: Design
    area_mm2: float
    power_w: float
    price_usd: float
    jobs: tuple[JobFigures, ...]

    def loss(self, reference: ChipAnswer) -> float:
        """The geometric mean over jobs, of each loss over that on `reference`."""
        ratios = [
            figures.loss / reference_figures.loss
            for figures, reference_figures in zip(self.jobs, reference.jobs, strict=True)
        ]
        return float(np.exp(np.log(ratios).mean()))

    def keeps(self, limits: Limits) -> bool:
        return self.area_mm2 <= limits.area_mm2 and self.power_w <= limits.power_w


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A chip of the catalogue beside the mined ones, with its own memory, clock and links; `fits` says the jobs do."""

    name: str
    answer: ChipAnswer
    interconnect_bytes_per_s: float
    fits: bool


def chip_answers(
    jobs: Sequence[TrainingJob], base: Chip, designs: Sequence[Design], metric: Metric
) -> tuple[ChipAnswer, ...]:
    """Each of `designs` built on `base`, all jobs scheduled on it."""
    silicon = silicon_of(base, designs)
    chips = mined_chips(base, designs, silicon)
    by_job = [_job_figures(job, chips, silicon, metric) for job in jobs]
    return tuple(
        ChipAnswer(
            design=design,
            area_mm2=float(silicon.area_mm2[row]),
            power_w=float(silicon.power_w[row]),
            price_usd=float(silicon.price_usd[row]),
            jobs=tuple(figures[row] for figures in by_job),
        )
        for row, design in enumerate(designs)
    )


def _job_figures(job: TrainingJob, chips: Sequence[Chip], silicon: Silicon, metric: Metric) -> list[JobFigures]:
    figures = figures_of(job, stage_times(job, chips), silicon)
    columns = (metric.loss(figures), metric.figure(figures), figures.step_s, figures.energy_j)
    return [
        JobFigures(loss=float(loss), figure=float(figure), step_s=float(step_s), energy_j=float(energy_j))
        for loss, figure, step_s, energy_j in zip(*columns, strict=True)
    ]


def base_answer(tasks: Sequence[Task], base: Chip, metric: Metric) -> ChipAnswer:
    """The cores of `base`, built as every design is that is compared with it."""
    [found] = chip_answers([task.job(base) for task in tasks], base, [design_of(base)], metric)
    return found


def best_answers(question: Question, points: Sequence[Point]) -> tuple[ChipAnswer, ...]:
    designs = [design_at(question.space, point) for point in points]
    return chip_answers(question.jobs, question.base, designs, question.metric)


def hand_tuned(tasks: Sequence[Task], metric: Metric) -> tuple[Rival, ...]:
    """The chips that others tuned by hand, each with its own memory and clock, evaluated as mined designs are."""
    found = []
    for name in HAND_TUNED:
        chip = catalogue[name]()
        fits = all(task.memory(chip).fits for task in tasks)
        answer = base_answer(tasks, chip, metric)
        links = chip.interconnect_bytes_per_s
        found.append(Rival(name=name, answer=answer, interconnect_bytes_per_s=links, fits=fits))
    return tuple(found)


def question_of(
    tasks: Sequence[Task], base: Chip, space: Space, limits: Limits, metric: Metric, reference: ChipAnswer
) -> Question:
    """Which design of `space` built on `base` is best, jobs weighed by what each comes to on `reference`."""
    return _question([task.job(base) for task in tasks], base, space, limits, metric, reference)


def question_over_base(
    tasks: Sequence[Task], base: Chip, space: Space, limits: Limits, metric: Metric
) -> tuple[Question, ChipAnswer]:
    """`question_of` with `base` as the reference, and its answer: `base_answer`. Jobs are built once for both."""
    jobs = [task.job(base) for task in tasks]
    [reference] = chip_answers(jobs, base, [design_of(base)], metric)
    return _question(jobs, base, space, limits, metric, reference), reference


def _question(
    jobs: Sequence[TrainingJob], base: Chip, space: Space, limits: Limits, metric: Metric, reference: ChipAnswer
) -> Question:
    return Question(
        jobs=tuple(jobs),
        base=base,
        space=space,
        limits=limits,
        metric=metric,
        reference_losses=tuple(one.loss for one in reference.jobs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingInside:
    """Limits that no design of a space keeps: the least that its designs take, each of another one."""

    limits: Limits
    smallest: Design
    least_area_mm2: float
    lowest_power: Design
    least_power_w: float
    num_points: int


def nothing_inside(question: Question) -> NothingInside | None:
    """Set where every design of the space is beyond a limit."""
    points = list(question.space.points())
    silicon = silicon_at(question.base, design_columns(question.space, points))
    if (silicon.excess_frac(question.limits) == 0).any():
        return None
    small, cool = int(silicon.area_mm2.argmin()), int(silicon.power_w.argmin())
    return NothingInside(
        limits=question.limits,
        smallest=design_at(question.space, points[small]),
        least_area_mm2=float(silicon.area_mm2[small]),
        lowest_power=design_at(question.space, points[cool]),
        least_power_w=float(silicon.power_w[cool]),
        num_points=len(points),
    )
