"""One chip for several models, and chips by stage for one: what sharing a design costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.template import design_of
from dovetail.papers.wham.searches import Budget, EveryStep, Log, Searched, found_by, found_within, trained_on
from dovetail.search.algorithms import algorithms
from dovetail.search.algorithms.exact import proving
from dovetail.search.designs import design_at
from dovetail.search.mining.answers import ChipAnswer
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.stages import MOSAIC, NUM_KEPT, POOLED, ByStage, by_stage


@dataclass(frozen=True, slots=True, kw_only=True)
class OneForAll:
    """The chip with the best geometric mean of gains over the base, and what each model loses by sharing it."""

    answer: ChipAnswer
    gain: float  # geometric mean of throughput over the base chip's
    slower: tuple[float, ...]  # by model: its step here over that on its own best chip
    num_scheduled: int
    is_proven: bool
    every_gain: float  # the most of all designs, each scheduled; `gain` where they were not


@dataclass(frozen=True, slots=True, kw_only=True)
class Mosaic:
    """One job with chips by kind of stage, beside one design for all: every die within the limits, and a pool's."""

    model: str
    mosaic: ByStage
    pooled: ByStage  # limits kept on the mean over devices


def common_design(
    budget: Budget,
    jobs: Sequence[TrainingJob],
    best: Sequence[Searched],
    steps: Sequence[EveryStep],
) -> OneForAll:
    """The common design, proven; `steps` are those of every job on every design, where they are known."""
    [base] = trained_on(budget.base, jobs, [design_of(budget.base)])
    question = budget.question(jobs, reference_losses=[one.loss for one in base.jobs])
    found = found_by(question, algorithms["exact"])
    [answer] = trained_on(budget.base, jobs, [design_at(budget.space, found.best.point)])
    gain = 1 / answer.loss(base)
    return OneForAll(
        answer=answer,
        gain=gain,
        slower=tuple(own.step_s / alone.step_s for own, alone in zip(answer.jobs, best, strict=True)),
        num_scheduled=found.num_scheduled,
        is_proven=found.is_proven,
        every_gain=_every_gain(base, steps) if steps else gain,
    )


def _every_gain(base: ChipAnswer, steps: Sequence[EveryStep]) -> float:
    inside = steps[0].inside  # the limits are the same for all
    logs = [np.log(one.step_s / every.step_s[inside]) for one, every in zip(base.jobs, steps, strict=True)]
    return float(np.exp(np.mean(logs, axis=0).max()))


def mosaic_of(budget: Budget, job: TrainingJob, log: Log) -> Mosaic:
    """A design for every kind of stage, out of the proven best of each and of the whole job."""
    question = budget.question((job,))
    exact = algorithms["exact"]
    found = found_by(question, proving(NUM_KEPT))
    ways = {}
    for way in (MOSAIC, POOLED):
        log(f"chips by stage, {way}")
        ways[way] = by_stage(question, found, exact, found_within, way=way, num_kept=NUM_KEPT)
    return Mosaic(model=job.name, mosaic=ways[MOSAIC], pooled=ways[POOLED])
