"""`dovetail mine`: from a model and limits to the best chip, with a store to go on from."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from dovetail.cli.naming import full_name
from dovetail.cli.process import stream
from dovetail.cli.progress import busy, mining_progress
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, evaluate
from dovetail.files.mining import MiningSaid, MiningSpec, load_mining
from dovetail.report.mined import MinedReport, mined_tables, nothing_tables, unfit_tables
from dovetail.report.mined_record import mined_record, nothing_record, unfit_record
from dovetail.search.algorithms import Algorithm, Scored, algorithms
from dovetail.search.metrics import Metric, metrics
from dovetail.search.mining.answers import (
    ChipAnswer,
    base_answer,
    best_answers,
    hand_tuned,
    nothing_inside,
    question_of,
)
from dovetail.search.mining.identity import question_facts
from dovetail.search.mining.miner import Keep, Mined, mined
from dovetail.search.mining.score import Question
from dovetail.search.mining.task import Task, fitting_cut
from dovetail.search.space import Point
from dovetail.store import opened

NUM_MOST = 500  # designs of a search that would not end by itself
NO_NUMBA = "dovetail: Numba is not installed, so schedules take several times longer; pip install 'dovetail[mine]'\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class MineAsked:
    """What was typed; nothing, or 0, where it was left out."""

    spec: str
    said: MiningSaid
    metric: str
    algorithm: str
    num_most: int
    seed: int
    store: str
    num_best: int


def answer(asked: MineAsked, *, as_json: bool) -> bool:
    """Shows the best chip, and says whether there is one."""
    metric, algorithm = _named(asked)
    said = replace(asked.said, base=full_name(asked.said.base)) if asked.said.base else asked.said
    spec = load_mining(asked.spec, said)
    for task in spec.tasks:
        if not task.memory(spec.base).fits:
            _tell_unfit(task, spec, as_json=as_json)
            return False
    _say_if_slow()
    with busy("scheduling hand-tuned chips"):
        reference = base_answer(spec.tasks, spec.base, metric)
        question = question_of(spec.tasks, spec.base, spec.space, spec.limits, metric, reference)
    nothing = nothing_inside(question)
    if nothing is not None:
        show_json(nothing_record(nothing, spec.base.name)) if as_json else show_tables(
            nothing_tables(nothing, spec.base.name)
        )
        return False
    found = _searched(asked, question, algorithm)
    report = _report(asked, spec, metric, question, found, reference)
    show_json(mined_record(report)) if as_json else show_tables(mined_tables(report))
    return True


def _named(asked: MineAsked) -> tuple[Metric, Algorithm]:
    try:
        metric = metrics[asked.metric]
    except InvalidInput as error:
        raise InvalidInput(error.message, "--metric") from None
    try:
        algorithm = algorithms[asked.algorithm]
    except InvalidInput as error:
        raise InvalidInput(error.message, "--algorithm") from None
    return metric, algorithm


def _tell_unfit(task: Task, spec: MiningSpec, *, as_json: bool) -> None:
    """A model that no design on this base can hold, with what would make it fit."""
    result = evaluate(task.workload, task.cluster(spec.base), task.plan)
    assert isinstance(result, Infeasible), f"{task.name} fits after all"
    ways = tuple(fitting_cut(task, spec.base))
    show_json(unfit_record(result, ways)) if as_json else show_tables(unfit_tables(result, ways))


def _say_if_slow() -> None:
    """Schedules come from plain loops where Numba cannot be imported."""
    told = stream("stderr")
    try:
        importlib.import_module("numba")
    except ImportError:
        if told is not None:
            told.write(NO_NUMBA)
            told.flush()


def _searched(asked: MineAsked, question: Question, algorithm: Algorithm) -> Mined:
    num_most = asked.num_most or (question.space.num_points if algorithm.is_exact else NUM_MOST)
    with _kept(asked, question) as (known, keep), mining_progress(question.base.name, num_most) as watch:
        found = mined(
            question, algorithm, Random(asked.seed), num_most=num_most, known=known, keep=keep, watch=watch
        )  # fmt: skip
    if found is None:
        told = f"none of the {num_most:,} designs that {asked.algorithm} looked at keeps the limits, and some do"
        raise InvalidInput(f"{told}; raise --budget, or say --algorithm exact")
    return found


@contextmanager
def _kept(asked: MineAsked, question: Question) -> Iterator[tuple[Mapping[Point, Scored], Keep]]:
    """What is known of this question, and how to keep more; nothing, and nowhere, without a store."""
    if not asked.store:
        yield {}, lambda _: None
        return
    path = Path(asked.store)
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"--store names a file in a folder that is there; got {asked.store!r}")
    with opened(path) as store:
        study = store.study("mine", question_facts(question, asked.metric))
        yield study.known(), study.keep


def _report(
    asked: MineAsked, spec: MiningSpec, metric: Metric, question: Question, found: Mined, reference: ChipAnswer
) -> MinedReport:
    return MinedReport(
        name=spec.name,
        tasks=spec.tasks,
        base=spec.base.name,
        limits=spec.limits,
        metric_name=asked.metric,
        metric=metric,
        algorithm=asked.algorithm,
        mined=found,
        best=best_answers(question, [one.point for one in found.found[: asked.num_best]]),
        reference=reference,
        rivals=hand_tuned(spec.tasks, metric),
        chosen_batch=spec.chosen_batch,
    )
