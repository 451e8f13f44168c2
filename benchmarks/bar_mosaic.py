"""Designs by stage at WHAM's budget: what a mosaic and a pool gain over one design, for the paper's large models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from benchmarks.bar import Bar
from benchmarks.bar_mining import LIMITS, tasks
from dovetail.hardware.catalog import chips
from dovetail.search.algorithms import Algorithm, Scored, algorithms
from dovetail.search.designs import design_space
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import base_answer, question_of
from dovetail.search.mining.load import Load
from dovetail.search.mining.miner import Mined, mined
from dovetail.search.mining.score import Question
from dovetail.search.mining.stages import MOSAIC, POOLED, ByStage, by_stage
from dovetail.search.mining.task import Task
from dovetail.search.space import Point

ISSUE = 6
CASES = (
    ("throughput", MOSAIC, 1),
    ("throughput", MOSAIC, 10),
    ("throughput", POOLED, 10),
    ("perf/tdp", MOSAIC, 1),
    ("perf/tdp", MOSAIC, 10),
)  # metric, way, and how many of the best designs of each stage
ROUNDING = 1e-9


class _Searches:
    """Searches of one question after another, none of which schedules a design of the same stages again."""

    def __init__(self) -> None:
        self._known: dict[tuple[Load, ...], dict[Point, Scored]] = {}

    def __call__(self, question: Question, algorithm: Algorithm, known: Mapping[Point, Scored]) -> tuple[Mined, ...]:
        [job] = question.jobs
        mine = self._known.setdefault(job.stages, {})
        found = mined(
            question, algorithm, Random(1), num_most=question.space.num_points, known={**mine, **known},
            keep=lambda _: None, watch=lambda _: None,
        )  # fmt: skip
        if found is None:
            return ()
        mine |= {one.point: one for one in found.found}
        return (found,)


def chosen(task: Task) -> dict[tuple[str, str, int], ByStage]:
    """Designs by stage in every case."""
    base, exact, found = chips["tpuv2-like"](), algorithms["exact"], {}
    for name in dict.fromkeys(metric for metric, _, _ in CASES):
        metric, search = metrics[name], _Searches()
        question = question_of([task], base, design_space(), LIMITS, metric, base_answer([task], base, metric))
        [one] = search(question, exact, {})
        for case in (case for case in CASES if case[0] == name):
            found[case] = by_stage(question, one, exact, search, way=case[1], num_kept=case[2])
    return found


def bars() -> Iterator[Bar]:
    large = [task for task in tasks() if task.plan.pipeline_parallel > 1]
    by_model = {task.name: chosen(task) for task in large}
    for metric, way, num_kept in CASES:
        gains = {name: found[metric, way, num_kept].gain_frac for name, found in by_model.items()}
        limits = "every die within the limits" if way == MOSAIC else "the limits kept on the mean"
        yield Bar(
            name=f"{way} over one design at the same total area, by {metric}, {num_kept} of each stage, {limits}",
            issue=ISSUE,
            bar="never worse",
            measured=", ".join(f"{name} {gain:+.2%}" for name, gain in gains.items()),
            holds=min(gains.values()) >= 0,
        )
    better = {
        f"{name} by {metric}": found[metric, MOSAIC, 1].chosen.loss / found[metric, MOSAIC, 10].chosen.loss - 1
        for name, found in by_model.items()
        for metric in ("throughput", "perf/tdp")
    }
    yield Bar(
        name="the best 10 designs of each stage to choose from, against the best one",
        issue=ISSUE,
        bar="never worse",
        measured=", ".join(f"{name} {gain:+.2%}" for name, gain in better.items()),
        holds=min(better.values()) >= -ROUNDING,
    )
    lists = [kind for found in by_model.values() for one in found.values() for kind in one.kinds]
    yield Bar(
        name="lists of the best designs of each stage that are proven to be these",
        issue=ISSUE,
        bar="all",
        measured=f"{sum(kind.num_proven == kind.num_kept for kind in lists)} of {len(lists)}",
        holds=all(kind.num_proven == kind.num_kept for kind in lists),
    )
