"""A search for a chip with a store, an engine and somebody who watches, and the report on what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from dovetail.api.arguments import entry_named
from dovetail.api.requests.searches import MineRequest
from dovetail.api.search_context import SearchContext
from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, evaluate
from dovetail.files.chip_names import full_name
from dovetail.files.job import countable
from dovetail.files.mining import MineOverrides, MiningSpec, load_mining
from dovetail.files.mining_stages import StageOverrides
from dovetail.hardware.template import Design
from dovetail.report.mined import MinedReport
from dovetail.search.algorithms import Algorithm, Scored, algorithms
from dovetail.search.designs import mined_chips, silicon_of
from dovetail.search.metrics import Metric, metrics
from dovetail.search.mining.answers import (
    ChipAnswer,
    NothingInside,
    best_answers,
    hand_tuned,
    nothing_inside,
    question_over_base,
    template_names,
)
from dovetail.search.mining.identity import question_facts
from dovetail.search.mining.miner import Mined, mined
from dovetail.search.mining.planning import PlannedTask, Replanned, planned_task, replanned, with_freer
from dovetail.search.mining.score import Question, figure_names, scored
from dovetail.search.mining.stages import ONE, ByStage, by_stage
from dovetail.search.mining.task import Task, fitting_cut
from dovetail.search.objectives import objectives
from dovetail.search.space import Point
from dovetail.store import Store

SEED = 1  # of algorithms that draw, unless another is said
NUM_MOST = 500  # designs of a search that would not end by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A model that no design on this base can hold, and the ways to cut it that would fit."""

    result: Infeasible
    ways: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDesign:
    """No design of the space is within the limits."""

    nothing: NothingInside
    base: str


def searched(request: MineRequest, context: SearchContext) -> MinedReport | Unfit | NoDesign:
    """The report on the best chip, or why there is none."""
    metric, algorithm = named(request)
    base = full_name(request.base, "--base", template_names()) if request.base else ""
    overrides = request.part(MineOverrides, base=base, stages=request.part(StageOverrides))
    spec = load_mining(request.spec, overrides)
    planned_spec = _with_plans(spec, context)
    if isinstance(planned_spec, Infeasible):
        return _unfit(planned_spec, spec)
    spec, by_planner = planned_spec
    for task in spec.tasks:
        if not task.memory(spec.base).fits:
            result = evaluate(task.workload, task.cluster(spec.base), task.plan)
            assert isinstance(result, Infeasible), f"{task.name} fits after all"
            return _unfit(result, spec)
    with context.store() as store:
        return _found(request, spec, metric, algorithm, store, by_planner, context)


def named(request: MineRequest) -> tuple[Metric, Algorithm]:
    metric = entry_named(metrics, request.metric, "--metric")
    algorithm = entry_named(algorithms, request.algorithm, "--algorithm")
    if request.seed and not algorithm.draws:
        message = f"{request.algorithm} draws nothing, so another seed finds the same"
        raise InvalidInput(f"{message}; leave it out, or pass --algorithm random", "--seed")
    return metric, algorithm


def _unfit(result: Infeasible, spec: MiningSpec) -> Unfit:
    ways = tuple(fitting_cut(Task(workload=result.workload, plan=result.plan), spec.base))
    return Unfit(result=result, ways=ways)


def _found(
    request: MineRequest,
    spec: MiningSpec,
    metric: Metric,
    algorithm: Algorithm,
    store: Store | None,
    by_planner: tuple[PlannedTask, ...],
    context: SearchContext,
) -> MinedReport | NoDesign:
    with context.announced("scheduling hand-tuned chips"):
        question, reference = question_over_base(spec.tasks, spec.base, spec.space, spec.limits, metric)
    nothing = nothing_inside(question)
    if nothing is not None:
        return NoDesign(nothing=nothing, base=spec.base.name)
    found = _searched(request, spec, question, algorithm, store, context)
    by_stages = _by_stages(request, spec, question, found, algorithm, store, context)
    report = _report(request, spec, metric, question, found, reference)
    report = replace(report, by_stage=by_stages, by_planner=by_planner)
    if not request.replan:
        return report
    return replace(report, replanned=_replans(spec, report.best[0].design, context))


def _with_plans(spec: MiningSpec, context: SearchContext) -> tuple[MiningSpec, tuple[PlannedTask, ...]] | Infeasible:
    """`spec` with plans of the planner's, where it was to be asked; or what does not fit, however it is cut."""
    stages = spec.stages
    if not stages.num_devices:
        return spec, ()
    found = []
    for task in spec.tasks:
        with countable(), context.planning(objectives["time"], 1.0) as progress:
            one = planned_task(task.workload, spec.base, stages.num_devices, stages.constraints, progress)
            if isinstance(one, Infeasible):
                return one
            found.append(with_freer(one, spec.base, stages.requested, stages.constraints, progress))
    return replace(spec, tasks=tuple(one.task for one in found)), tuple(found)


def _replans(spec: MiningSpec, design: Design, context: SearchContext) -> tuple[Replanned, ...]:
    """For every job, what the planner would choose on `design`."""
    [chip] = mined_chips(spec.base, [design], silicon_of(spec.base, [design]))
    found = []
    for task in spec.tasks:
        with context.planning(objectives["time"], 1.0) as progress:
            found.append(replanned(task, chip, spec.stages.constraints, progress))
    return tuple(found)


def _by_stages(
    request: MineRequest,
    spec: MiningSpec,
    question: Question,
    found: Mined,
    algorithm: Algorithm,
    store: Store | None,
    context: SearchContext,
) -> tuple[ByStage, ...]:
    """Designs by stage, where they are asked for."""
    wanted = spec.stages

    def search(one: Question, wide: Algorithm, known: Mapping[Point, Scored]) -> tuple[Mined, ...]:
        return () if nothing_inside(one) else (_searched(request, spec, one, wide, store, context, known),)

    if wanted.way == ONE:
        return ()
    return (by_stage(question, found, algorithm, search, way=wanted.way, num_kept=wanted.num_kept),)


def _searched(
    request: MineRequest,
    spec: MiningSpec,
    question: Question,
    algorithm: Algorithm,
    store: Store | None,
    context: SearchContext,
    more: Mapping[Point, Scored] = MappingProxyType({}),
) -> Mined:
    """What a search finds; `more` is known beside what the store has."""
    num_most = request.budget or (question.space.num_points if algorithm.is_exact else NUM_MOST)
    facts = question_facts(question, request.metric, spec.tasks)
    with (
        context.resumed(store, "mine", facts, figure_names(question)) as (known, keep),
        context.engine(question) as engine,
        context.mining(question.base.name, num_most) as watch,
    ):
        found = mined(
            question, algorithm, Random(request.seed or SEED), num_most=num_most, known={**more, **known}, keep=keep,
            watch=watch, chunks=lambda chunks: engine.map(scored, chunks),
        )  # fmt: skip
    if found is None:
        message = f"none of the {num_most:,} designs that {request.algorithm} looked at keeps the limits, and some do"
        raise InvalidInput(f"{message}; raise --budget, or pass --algorithm exact")
    return found


def _report(
    request: MineRequest, spec: MiningSpec, metric: Metric, question: Question, found: Mined, reference: ChipAnswer
) -> MinedReport:
    return MinedReport(
        name=spec.name,
        tasks=spec.tasks,
        base=spec.base.name,
        limits=spec.limits,
        metric_name=request.metric,
        metric=metric,
        algorithm=request.algorithm,
        mined=found,
        best=best_answers(question, [one.point for one in found.found[: request.top]]),
        reference=reference,
        rivals=hand_tuned(spec.tasks, metric),
        chosen_batch=spec.chosen_batch,
        base_chip=spec.base,
    )
