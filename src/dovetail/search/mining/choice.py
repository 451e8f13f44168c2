"""One design for all stages of a job, or one for each kind of stage: the global choice among each stage's best.

Stages that do the same, as the middle ones of a pipeline do, are one kind and share a design. With three or four kinds
and ten designs each, every combination is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.template import Design
from dovetail.search.designs import Silicon, mined_chips, silicon_of
from dovetail.search.metrics import ChipFigures
from dovetail.search.mining.load import Load, TrainingJob
from dovetail.search.mining.score import Question, StageTimes, figures_of, stage_times, step_s
from dovetail.workload.graph import FloatArray, IntArray

MOST_COMBINATIONS = 200_000  # of designs by kind of stage; beyond it fewer designs of each are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A design for every stage, and what the job comes to with them."""

    designs: tuple[Design, ...]
    loss: float


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


def common(question: Question, designs: Sequence[Design]) -> Assigned:
    """The best of `designs` for all stages of the one job of `question`."""
    job, silicon, times = _evaluated(question, designs)
    losses = np.asarray(question.metric.loss(figures_of(job, times, silicon)))
    best = int(losses.argmin())
    return Assigned(designs=(designs[best],) * job.num_stages, loss=float(losses[best]))


def mosaic(question: Question, tops: Sequence[Sequence[Design]]) -> Assigned:
    """The best design for each kind of stage, out of `tops`: best designs by kind.

    A design that one kind found is open to all, so that the best common design is among the combinations.
    """
    job = _only_job(question)
    kinds = stage_kinds(job)
    if len(tops) != len(kinds):
        raise InvalidInput(f"designs are needed for each of {len(kinds)} kinds of stage; got {len(tops)}", "tops")
    designs = _open_to_all(tops, len(kinds))
    _, silicon, times = _evaluated(question, designs)
    combos = np.array(list(itertools.product(range(len(designs)), repeat=len(kinds))), dtype=np.int64)
    of_stage = np.empty(job.num_stages, dtype=np.int64)
    for kind, stages in enumerate(kinds):
        of_stage[list(stages)] = kind
    chosen = combos[:, of_stage]  # combinations by stages
    losses = np.asarray(question.metric.loss(_mixed_figures(job, times, silicon, chosen)))
    best = int(losses.argmin())
    return Assigned(designs=tuple(designs[row] for row in chosen[best]), loss=float(losses[best]))


def _open_to_all(tops: Sequence[Sequence[Design]], num_kinds: int) -> list[Design]:
    """Designs of all kinds, the best of each first, as many as leave time for every combination."""
    ranked = itertools.zip_longest(*tops)
    every = list(dict.fromkeys(design for rank in ranked for design in rank if design is not None))
    return every[: max(1, int(MOST_COMBINATIONS ** (1 / num_kinds)))]


def _only_job(question: Question) -> TrainingJob:
    if len(question.jobs) != 1:
        raise InvalidInput(f"stages are those of one job; got {len(question.jobs)}", "jobs")
    return question.jobs[0]


def _evaluated(question: Question, designs: Sequence[Design]) -> tuple[TrainingJob, Silicon, StageTimes]:
    job, silicon = _only_job(question), silicon_of(question.base, designs)
    return job, silicon, stage_times(job, mined_chips(question.base, designs, silicon))


def _mixed_figures(job: TrainingJob, times: StageTimes, silicon: Silicon, chosen: IntArray) -> ChipFigures:
    """What the job comes to with a design for every stage: combinations by stages."""
    stages = np.arange(job.num_stages)

    def picked(amount: FloatArray) -> FloatArray:
        return np.asarray(amount[chosen, stages])

    taken_s = step_s(picked(times.pass_s), picked(times.once_s), job.num_microbatches)
    num_replicas = job.num_devices / job.num_stages
    dynamic_j = (job.num_microbatches * picked(times.pass_j) + picked(times.once_j)).sum(axis=1)
    return ChipFigures(
        step_s=taken_s,
        energy_j=num_replicas * (dynamic_j + silicon.static_w[chosen].sum(axis=1) * taken_s),
        power_w=silicon.power_w[chosen].mean(axis=1),
        price_usd=silicon.price_usd[chosen].mean(axis=1),
        num_devices=job.num_devices,
        num_samples=job.num_samples,
    )
