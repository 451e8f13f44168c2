"""Designs scored: a schedule of every graph of every stage on each chip, and what the step comes to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.cost.columns import chip_columns
from dovetail.cost.costs import cost_table
from dovetail.hardware.chip import Chip
from dovetail.opsched.batch import scheduled
from dovetail.opsched.problem import TENSOR, VECTOR
from dovetail.opsched.slices import SliceCosts, slice_costs
from dovetail.opsched.work import Work, chip_batch
from dovetail.parallel.sharding import joined_ops
from dovetail.search.algorithms import NOTHING, Scored
from dovetail.search.designs import Limits, Silicon, design_at, mined_chips, silicon_of
from dovetail.search.metrics import ChipFigures, Metric
from dovetail.search.mining.load import TrainingJob
from dovetail.search.space import Point, Space
from dovetail.workload.graph import FloatArray, IntArray

KNOB_OF = {TENSOR: "num_tensor", VECTOR: "num_vector"}
FIGURE_NAMES = ("power_w", "area_mm2", "price_usd")  # what `Scored.also` begins with, of a design within the limits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageTimes:
    """Of designs by stages: seconds and joules of a microbatch, and of what is done once a step.

    `lost_s` is the time of critical work that more cores of a kind would shorten, kinds by designs.
    """

    pass_s: FloatArray
    per_step_s: FloatArray
    pass_j: FloatArray
    per_step_j: FloatArray
    lost_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkTimes:
    """One run of a graph on each of many chips."""

    time_s: FloatArray
    energy_j: FloatArray
    bottleneck: IntArray


def work_times(works: Sequence[Work], chips: Sequence[Chip]) -> list[WorkTimes]:
    """Each of `works` on each of `chips`: all of their operators costed at once, then graph after graph scheduled."""
    ops, starts = joined_ops([work.ops for work in works]), np.cumsum([0, *(len(work.ops) for work in works)])
    costs = slice_costs(ops, chips, np.concatenate([work.exchange_s for work in works]))
    energy_j = cost_table(ops, chip_columns(tuple(chips))).energy_j
    found = []
    for work, start, end in zip(works, starts, starts[1:], strict=False):
        work_costs = SliceCosts(slices=costs.slices, compute_s=costs.compute_s[start:end], need=costs.need[start:end])
        times = scheduled(chip_batch(work, chips, work_costs))
        work_j = energy_j[start:end].sum(axis=0)
        found.append(WorkTimes(time_s=times.makespan_s, energy_j=work_j, bottleneck=times.bottleneck))
    return found


def works_of(job: TrainingJob) -> list[Work]:
    """Every different graph of `job`, once."""
    repeats = [repeated for stage in job.stages for repeated in (*stage.passes, *stage.updates)]
    return list({id(repeated.work): repeated.work for repeated in repeats}.values())


def stage_times(job: TrainingJob, chips: Sequence[Chip]) -> StageTimes:
    """Every stage of `job` on every one of `chips`; graphs that stages share are scheduled once."""
    works = works_of(job)
    known = {id(work): times for work, times in zip(works, work_times(works, chips), strict=True)}
    shape = (len(chips), job.num_stages)
    pass_s, per_step_s, pass_j, per_step_j = (np.zeros(shape) for _ in range(4))
    lost_s = np.zeros((len(KNOB_OF), len(chips)))
    for place, stage in enumerate(job.stages):
        for repeated in stage.passes:
            found = known[id(repeated.work)]
            pass_s[:, place] += repeated.count * found.time_s
            pass_j[:, place] += repeated.count * found.energy_j
            for kind, code in enumerate(KNOB_OF):
                lost_s[kind] += np.where(found.bottleneck == code, repeated.count * found.time_s, 0.0)
        for repeated in stage.updates:
            found = known[id(repeated.work)]
            per_step_s[:, place] += repeated.count * found.time_s
            per_step_j[:, place] += repeated.count * found.energy_j
        per_step_s[:, place] += stage.per_step_s
    return StageTimes(pass_s=pass_s, per_step_s=per_step_s, pass_j=pass_j, per_step_j=per_step_j, lost_s=lost_s)


def step_s(job: TrainingJob, pass_s: FloatArray, per_step_s: FloatArray) -> FloatArray:
    """A step of `job`, its stages in the last axis: the longest path through 1F1B without transfers.

    Every stage runs forward passes ahead, as many as there are stages behind it, at the pace of the slowest up to it;
    then it works without a gap, or waits for a slower one; and empties as it filled. No pipeline was found for which
    that is not the schedule played out, given what each pass takes. It does not fall where a pass takes longer.
    """
    num_stages, rest = job.num_stages, job.num_microbatches - 1
    stages = np.arange(num_stages)
    ahead = np.minimum(num_stages - 1 - stages, rest)
    forward_s = pass_s * np.array([stage.forward_frac for stage in job.stages])
    slowest_s = [np.maximum.accumulate(way_s, axis=-1) for way_s in (forward_s, pass_s - forward_s)]
    through_s = np.cumsum(pass_s, axis=-1)
    fill_s, drain_s = (_latest(through_s + ahead * way_s) for way_s in slowest_s)
    turns = rest - num_stages + stages
    steady_s = fill_s + drain_s + turns * pass_s - (through_s - pass_s)
    # no forward pass is left once the first backward one is done
    few_s = np.maximum(fill_s + rest * slowest_s[1], drain_s + rest * slowest_s[0])
    return np.asarray(np.where(turns >= 0, steady_s, few_s).max(axis=-1) + per_step_s.max(axis=-1))


def _latest(values_s: FloatArray) -> FloatArray:
    """At each stage the greatest of its own and all later ones."""
    return np.asarray(np.maximum.accumulate(values_s[..., ::-1], axis=-1)[..., ::-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """Which design of `space`, built on `base`, trains `jobs` best by `metric` within `limits`.

    Of several jobs the geometric mean counts, each over `reference_losses`: what it comes to on a chip to compare with.
    """

    jobs: tuple[TrainingJob, ...]
    base: Chip
    space: Space
    limits: Limits
    metric: Metric
    reference_losses: tuple[float, ...]


def figure_names(question: Question) -> tuple[str, ...]:
    """What `Scored.also` has of a design: of the chip, and a step of each job."""
    names = [job.name for job in question.jobs]
    if len(names) == 1:
        return (*FIGURE_NAMES, "step_s")
    labels = [name if names.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(names, 1)]
    return (*FIGURE_NAMES, *(f"step_s of {name}" for name in labels))


def losses(question: Question, chips: Sequence[Chip], silicon: Silicon) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of every chip by every job: the loss, and a step; and seconds that more cores would shorten, kinds by chips."""
    found, steps_s, lost = [], [], np.zeros((len(KNOB_OF), len(chips)))
    for job in question.jobs:
        times = stage_times(job, chips)
        figures = figures_of(job, times, silicon)
        found.append(np.asarray(question.metric.loss(figures)))
        steps_s.append(np.asarray(figures.step_s))
        lost += times.lost_s / figures.step_s
    return np.stack(found, axis=1), np.stack(steps_s, axis=1), lost


def figures_of(job: TrainingJob, times: StageTimes, silicon: Silicon) -> ChipFigures:
    """A step of `job` with all its devices of one design."""
    taken_s = step_s(job, times.pass_s, times.per_step_s)
    num_replicas = job.num_devices / job.num_stages
    dynamic_j = num_replicas * (job.num_microbatches * times.pass_j + times.per_step_j).sum(axis=1)
    return ChipFigures(
        step_s=taken_s,
        energy_j=dynamic_j + job.num_devices * silicon.static_w * taken_s,
        power_w=silicon.power_w,
        price_usd=silicon.price_usd,
        num_devices=job.num_devices,
        num_samples=job.num_samples,
    )


def scored(question: Question, points: list[Point]) -> list[Scored]:
    """What each of `points` comes to; those beyond a limit are not scheduled."""
    designs = [design_at(question.space, point) for point in points]
    silicon = silicon_of(question.base, designs)
    excess = silicon.excess_frac(question.limits)
    inside = np.flatnonzero(excess == 0)
    found = [
        Scored(point=point, loss=math.inf, excess_frac=float(over)) for point, over in zip(points, excess, strict=True)
    ]
    if not len(inside):
        return found
    if len(inside) == 1:  # NumPy adds up a single column in another order, and a score must not depend on its company
        inside = np.repeat(inside, 2)
    kept = silicon.at(inside)
    chips = mined_chips(question.base, [designs[row] for row in inside], kept)
    by_job, steps_s, lost = losses(question, chips, kept)
    mean = np.exp(np.log(by_job / question.reference_losses).mean(axis=1))
    for place, row in enumerate(inside):
        kind = int(lost[:, place].argmax())
        found[row] = Scored(
            point=points[row],
            loss=float(mean[place]),
            also=(*(float(getattr(kept, name)[place]) for name in FIGURE_NAMES), *map(float, steps_s[place])),
            bottleneck=tuple(KNOB_OF.values())[kind] if lost[kind, place] > 0 else NOTHING,
        )
    return found
