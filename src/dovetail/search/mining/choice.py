"""One design for all stages of a job, or one for each kind of stage: the global choice among each stage's best.

Stages that do the same, as the middle ones of a pipeline do, are one kind and share a design. Of each kind, designs
that another is no worse than in all that counts are left out; of the others every combination is looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.template import Design
from dovetail.search.designs import Limits, Silicon, mined_chips, silicon_of
from dovetail.search.metrics import ChipFigures, Metric
from dovetail.search.mining.load import Load, TrainingJob
from dovetail.search.mining.score import Question, StageTimes, stage_times, step_s
from dovetail.workload.graph import FloatArray, IntArray

MOST_COMBINATIONS = 200_000  # of designs by kind of stage; beyond it fewer designs of each are looked at
NUM_AT_ONCE = 20_000  # combinations whose times are held at once
SAME_FRAC = 1e-12  # style: a tolerance; unlike designs must be worth more than rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDesign:
    """The design of one stage: what it takes, and what a microbatch takes on it."""

    design: Design
    area_mm2: float
    power_w: float
    price_usd: float
    pass_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A design for every stage, and what the job comes to with them."""

    stages: tuple[StageDesign, ...]
    loss: float
    figure: float
    step_s: float
    energy_j: float

    @property
    def designs(self) -> tuple[Design, ...]:
        return tuple(stage.design for stage in self.stages)

    @property
    def mean_area_mm2(self) -> float:
        return sum(stage.area_mm2 for stage in self.stages) / len(self.stages)

    @property
    def mean_power_w(self) -> float:
        return sum(stage.power_w for stage in self.stages) / len(self.stages)


def stage_kinds(job: TrainingJob) -> tuple[tuple[int, ...], ...]:
    """Stages that run the same graphs as often, together; kinds in the order of their first stage."""
    found: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for place, stage in enumerate(job.stages):
        key = tuple((id(one.work), one.count) for one in (*stage.passes, *stage.updates))
        found.setdefault(key, []).append(place)
    return tuple(map(tuple, found.values()))


def stage_job(job: TrainingJob, stage: Load) -> TrainingJob:
    """A stage as a job of its own: what its best designs are searched by."""
    return TrainingJob(
        name=job.name,
        stages=(stage,),
        num_microbatches=job.num_microbatches,
        num_devices=job.num_devices // job.num_stages,
        num_samples=job.num_samples,
    )


def only_job(question: Question) -> TrainingJob:
    if len(question.jobs) != 1:
        raise InvalidInput(f"stages are those of one job; got {len(question.jobs)}", "jobs")
    return question.jobs[0]


def common(question: Question, designs: Sequence[Design]) -> Assigned:
    """The best of `designs` for all stages of the one job of `question`."""
    found = _Evaluated(question, designs)
    one_design = np.repeat(np.arange(len(designs))[:, None], found.job.num_stages, axis=1)
    return found.assigned(one_design[int(found.losses(one_design).argmin())])


def mosaic(question: Question, tops: Sequence[Sequence[Design]]) -> Assigned:
    """The best design for each kind of stage, out of `tops`: lists of designs, the best of each list first.

    A design of any list is open to all kinds, so that the best of them for all stages is among the combinations, and is
    the answer where unlike ones are no better. Designs beyond the limits of `question` are left out.
    """
    designs = _ranked(tops)
    inside = silicon_of(question.base, designs).excess_frac(question.limits) == 0
    return _chosen(question, [design for design, keeps in zip(designs, inside, strict=True) if keeps], is_pooled=False)


def pooled(question: Question, tops: Sequence[Sequence[Design]]) -> Assigned:
    """As a mosaic, but of `tops` those stay whose area and power keep the limits on the mean over all devices."""
    return _chosen(question, _ranked(tops), is_pooled=True)


def _ranked(tops: Sequence[Sequence[Design]]) -> list[Design]:
    """Designs of all lists, the best of each first: those of shorter lists come before what longer ones add."""
    ranked = itertools.zip_longest(*tops)
    return list(dict.fromkeys(design for rank in ranked for design in rank if design is not None))


def _chosen(question: Question, designs: list[Design], *, is_pooled: bool) -> Assigned:
    if not designs:
        raise InvalidInput("no designs keep the limits; give smaller ones", "tops")
    found = _Evaluated(question, designs)
    of_stage = np.empty(found.job.num_stages, dtype=np.int64)
    kinds = stage_kinds(found.job)
    for kind, stages in enumerate(kinds):
        of_stage[list(stages)] = kind
    one_design = np.repeat(np.arange(len(designs))[:, None], len(kinds), axis=1)
    mixed = found.combinations([stages[0] for stages in kinds], is_pooled=is_pooled)
    combos = np.concatenate([one_design, mixed])
    if is_pooled:
        combos = combos[found.keep(combos[:, of_stage], question.limits)]
    if not len(combos):
        raise InvalidInput("no designs keep the limits on the mean; give smaller ones", "tops")
    losses = found.losses(combos, of_stage)
    best = int(np.flatnonzero(losses <= losses.min() * (1 + SAME_FRAC))[0])  # equal ones come first
    return found.assigned(combos[best, of_stage])


class _Evaluated:
    """Designs, what they take, and what every stage of the one job of a question takes on each."""

    def __init__(self, question: Question, designs: Sequence[Design]) -> None:
        self.job, self._metric = only_job(question), question.metric
        # NumPy adds up a single column in another order, and a score must not depend on its company
        self._designs = designs if len(designs) > 1 else [*designs, *designs]
        self._silicon = silicon_of(question.base, self._designs)
        self._times = stage_times(self.job, mined_chips(question.base, self._designs, self._silicon))

    def losses(self, combos: IntArray, of_stage: IntArray | None = None) -> FloatArray:
        """Of combinations: designs by stages, or by kinds where `of_stage` says which kind a stage is."""
        found = []
        for start in range(0, len(combos), NUM_AT_ONCE):
            chosen = combos[start : start + NUM_AT_ONCE]
            chosen = chosen if of_stage is None else chosen[:, of_stage]
            found.append(np.asarray(self._metric.loss(mixed_figures(self.job, self._times, self._silicon, chosen))))
        return np.concatenate(found)

    def keep(self, chosen: IntArray, limits: Limits) -> FloatArray:
        """Which combinations of designs by stages keep `limits` on the mean over stages, all of as many devices."""
        is_small = self._silicon.area_mm2[chosen].mean(axis=1) <= limits.area_mm2 * (1 + SAME_FRAC)
        return np.asarray(is_small & (self._silicon.power_w[chosen].mean(axis=1) <= limits.power_w * (1 + SAME_FRAC)))

    def assigned(self, rows: IntArray) -> Assigned:
        figures = mixed_figures(self.job, self._times, self._silicon, rows[None])
        silicon = self._silicon.at(rows)
        return Assigned(
            stages=tuple(
                StageDesign(
                    design=self._designs[row],
                    area_mm2=float(silicon.area_mm2[place]),
                    power_w=float(silicon.power_w[place]),
                    price_usd=float(silicon.price_usd[place]),
                    pass_s=float(self._times.pass_s[row, place]),
                )
                for place, row in enumerate(rows.tolist())
            ),
            loss=float(np.asarray(self._metric.loss(figures))[0]),
            figure=float(np.asarray(self._metric.figure(figures))[0]),
            step_s=float(np.asarray(figures.step_s)[0]),
            energy_j=float(np.asarray(figures.energy_j)[0]),
        )

    def combinations(self, stages: list[int], *, is_pooled: bool) -> IntArray:
        """Designs by kinds, given a stage of each: all combinations of those worth a look.

        Where they are too many, of as many of the first designs as leave time for all: so that with more designs to
        choose from, none is lost that fewer would have had.
        """
        beaten = [first_beaten(self._columns(stage, is_pooled=is_pooled)) for stage in stages]
        nums = range(len(self._designs), 0, -1)
        by_number = ([np.flatnonzero(by[:num] >= num) for by in beaten] for num in nums)
        worth = next(
            choices for choices in by_number if math.prod(map(len, choices)) <= MOST_COMBINATIONS
        )  # one design is few
        return np.stack(np.meshgrid(*worth, indexing="ij"), axis=-1).reshape(-1, len(stages))

    def _columns(self, stage: int, *, is_pooled: bool) -> FloatArray:
        """What counts of each design on `stage`, all to be small: what the step, the metric and limits depend on."""
        times, silicon = self._times, self._silicon
        read = read_by(self._metric)
        found = [times.pass_s[:, stage], times.per_step_s[:, stage]]
        if "energy_j" in read:
            found += [self.job.num_microbatches * times.pass_j[:, stage] + times.per_step_j[:, stage], silicon.static_w]
        found += [silicon.power_w] if "power_w" in read or is_pooled else []
        found += [silicon.price_usd] if "price_usd" in read else []
        found += [silicon.area_mm2] if is_pooled else []
        return np.stack(found, axis=1)


def read_by(metric: Metric) -> frozenset[str]:
    """Which figures of a chip change the loss of `metric`: each is doubled in turn."""
    ones = ChipFigures(step_s=1.0, energy_j=1.0, power_w=1.0, price_usd=1.0, num_devices=1, num_samples=1)
    names = (field.name for field in fields(ChipFigures))
    return frozenset(name for name in names if metric.loss(replace(ones, **{name: 2})) != metric.loss(ones))


def first_beaten(columns: FloatArray) -> IntArray:
    """Of each row the first other one that is no greater in any column, as many as there are rows where none is.

    Of equal rows the first beats the others. So among the first n rows those count whose number is n or more.
    """
    num = len(columns)
    no_greater = np.ones((num, num), dtype=np.bool_)
    for column in columns.T:
        no_greater &= column[:, None] <= column
    is_equal = no_greater & no_greater.T
    no_greater &= ~is_equal | (np.arange(num)[:, None] < np.arange(num))
    return np.where(no_greater.any(axis=0), no_greater.argmax(axis=0), num)


def mixed_figures(job: TrainingJob, times: StageTimes, silicon: Silicon, chosen: IntArray) -> ChipFigures:
    """What the job comes to with a design for every stage: combinations by stages."""
    stages = np.arange(job.num_stages)

    def picked(amount: FloatArray) -> FloatArray:
        return np.asarray(amount[chosen, stages])

    taken_s = step_s(job, picked(times.pass_s), picked(times.per_step_s))
    num_replicas = job.num_devices / job.num_stages
    dynamic_j = (job.num_microbatches * picked(times.pass_j) + picked(times.per_step_j)).sum(axis=1)
    return ChipFigures(
        step_s=taken_s,
        energy_j=num_replicas * (dynamic_j + silicon.static_w[chosen].sum(axis=1) * taken_s),
        power_w=silicon.power_w[chosen].mean(axis=1),
        price_usd=silicon.price_usd[chosen].mean(axis=1),
        num_devices=job.num_devices,
        num_samples=job.num_samples,
    )
