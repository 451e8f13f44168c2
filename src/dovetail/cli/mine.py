"""`dovetail mine`: from a model and limits to the best chip, with a store to go on from."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from dovetail.cli.engines import EngineAsked, engine_for
from dovetail.cli.mine_stages import replans, with_plans
from dovetail.cli.naming import full_name
from dovetail.cli.process import stream
from dovetail.cli.progress import busy, mining_progress
from dovetail.cli.screen import show_json, show_tables
from dovetail.cli.storing import chosen_store, resumed
from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, evaluate
from dovetail.files.mining import MiningSaid, MiningSpec, load_mining
from dovetail.report.mined import MinedReport, mined_tables, nothing_tables, unfit_tables
from dovetail.report.mined_record import mined_record, nothing_record, unfit_record
from dovetail.search.algorithms import Algorithm, Scored, algorithms
from dovetail.search.metrics import Metric, metrics
from dovetail.search.mining.answers import (
    ChipAnswer,
    best_answers,
    hand_tuned,
    nothing_inside,
    question_over_base,
    template_names,
)
from dovetail.search.mining.identity import question_facts
from dovetail.search.mining.miner import Mined, mined
from dovetail.search.mining.planning import PlannedTask
from dovetail.search.mining.score import Question, figure_names, scored
from dovetail.search.mining.stages import ONE, ByStage, by_stage
from dovetail.search.mining.task import Task, fitting_cut
from dovetail.search.space import Point
from dovetail.store import Store

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
    engine: EngineAsked
    is_replanned: bool = False


def answer(asked: MineAsked, *, as_json: bool) -> bool:
    """Shows the best chip, and says whether there is one."""
    metric, algorithm = _named(asked)
    base = full_name(asked.said.base, "--base", template_names()) if asked.said.base else ""
    spec = load_mining(asked.spec, replace(asked.said, base=base))
    made = with_plans(spec)
    if isinstance(made, Infeasible):
        _tell_infeasible(made, spec, as_json=as_json)
        return False
    spec, by_planner = made
    for task in spec.tasks:
        if not task.memory(spec.base).fits:
            _tell_unfit(task, spec, as_json=as_json)
            return False
    with chosen_store(asked.store) as store:
        return _answer(asked, spec, metric, algorithm, store, by_planner, as_json=as_json)


def _answer(
    asked: MineAsked,
    spec: MiningSpec,
    metric: Metric,
    algorithm: Algorithm,
    store: Store | None,
    by_planner: tuple[PlannedTask, ...],
    *,
    as_json: bool,
) -> bool:
    say_if_slow()
    with busy("scheduling hand-tuned chips"):
        question, reference = question_over_base(spec.tasks, spec.base, spec.space, spec.limits, metric)
    nothing = nothing_inside(question)
    if nothing is not None:
        show_json(nothing_record(nothing, spec.base.name)) if as_json else show_tables(
            nothing_tables(nothing, spec.base.name)
        )
        return False
    found = _searched(asked, spec, question, algorithm, store)
    by_stages = _by_stages(asked, spec, question, found, algorithm, store)
    report = _report(asked, spec, metric, question, found, reference)
    report = replace(report, by_stage=by_stages, by_planner=by_planner)
    if asked.is_replanned:
        report = replace(report, replanned=replans(spec, report.best[0].design))
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
    _tell_infeasible(result, spec, as_json=as_json)


def _tell_infeasible(result: Infeasible, spec: MiningSpec, *, as_json: bool) -> None:
    ways = tuple(fitting_cut(Task(workload=result.workload, plan=result.plan), spec.base))
    show_json(unfit_record(result, ways)) if as_json else show_tables(unfit_tables(result, ways))


def _by_stages(
    asked: MineAsked, spec: MiningSpec, question: Question, found: Mined, algorithm: Algorithm, store: Store | None
) -> tuple[ByStage, ...]:
    """Designs by stage, where they are asked for."""
    wanted = spec.stages

    def search(one: Question, wide: Algorithm, known: Mapping[Point, Scored]) -> tuple[Mined, ...]:
        return () if nothing_inside(one) else (_searched(asked, spec, one, wide, store, known),)

    if wanted.way == ONE:
        return ()
    return (by_stage(question, found, algorithm, search, way=wanted.way, num_kept=wanted.num_kept),)


def say_if_slow() -> None:
    """Schedules come from plain loops where Numba cannot be imported."""
    told = stream("stderr")
    try:
        importlib.import_module("numba")
    except ImportError:
        if told is not None:
            told.write(NO_NUMBA)
            told.flush()


def _searched(
    asked: MineAsked,
    spec: MiningSpec,
    question: Question,
    algorithm: Algorithm,
    store: Store | None,
    more: Mapping[Point, Scored] = MappingProxyType({}),
) -> Mined:
    """What a search finds; `more` is known beside what the store has."""
    num_most = asked.num_most or (question.space.num_points if algorithm.is_exact else NUM_MOST)
    facts = question_facts(question, asked.metric, spec.tasks)
    with (
        resumed(store, "mine", facts, figure_names(question)) as (known, keep),
        engine_for(asked.engine, question) as engine,
        mining_progress(question.base.name, num_most) as watch,
    ):
        found = mined(
            question, algorithm, Random(asked.seed), num_most=num_most, known={**more, **known}, keep=keep, watch=watch,
            chunks=lambda chunks: engine.map(scored, chunks),
        )  # fmt: skip
    if found is None:
        told = f"none of the {num_most:,} designs that {asked.algorithm} looked at keeps the limits, and some do"
        raise InvalidInput(f"{told}; raise --budget, or say --algorithm exact")
    return found


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
