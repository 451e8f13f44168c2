"""A joint search with a store, an engine and somebody who watches, and the report on what it found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from dovetail.accuracy.evidence import spread_frac
from dovetail.api.arguments import entry_named
from dovetail.api.joint import NoSystem, loaded, no_system, noted, question_of
from dovetail.api.requests.searches import EXACT, CodesignRequest
from dovetail.api.search_context import SearchContext
from dovetail.errors import InvalidInput
from dovetail.files.codesign import CodesignSpec
from dovetail.files.codesign_formats import codesign_entries
from dovetail.files.residuals import load_residuals
from dovetail.report.codesigned import CodesignReport
from dovetail.search.algorithms import algorithms
from dovetail.search.codesign.answers import (
    Separate,
    SystemAnswer,
    answer_of,
    base_answer,
    separate,
    with_reference,
)
from dovetail.search.codesign.black_box import black_box, may_fit
from dovetail.search.codesign.budget_sensitivity import limits_of
from dovetail.search.codesign.joint import JointFound, SearchBackend, Standing, joint_search
from dovetail.search.codesign.per_model_best import per_model_best
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.refining import RefinedCase, RefinedSystem
from dovetail.search.codesign.rows import Rows, question_facts, refined_names, refined_of, score_names, score_of
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.sensitivity import Sensitivity, sensitivity_of
from dovetail.search.codesign.tasks import hold, refine_task, score_task, scorer_of
from dovetail.search.codesign.waterfall import waterfall
from dovetail.search.metrics import Metric, metrics
from dovetail.store import Store

KIND = "codesign"  # of studies
NUM_MOST, SEED = 500, 1  # of a black box, where nothing is said
FEW_POINTS = 500_000  # of a space: bounded in a few seconds


def searched(
    request: CodesignRequest, context: SearchContext
) -> tuple[CodesignReport | NoSystem, tuple[Standing, ...]]:
    """The report on the best system, or that there is none; and what the search told as it went on."""
    metric = entry_named(metrics, request.metric, "--metric")
    check_algorithm(request)
    spec = loaded(request)
    history: list[Standing] = []
    with context.store() as store:
        question = question_of(spec, metric)
        with context.announced("planning for the base chip"):
            base = base_answer(question)
        question = with_reference(question, base)
        found = _searched(request, spec, question, store, history, context)
        if found is None:
            return no_system(spec, question), tuple(history)
        report = _report(request, spec, metric, question, found, base, context)
        if request.per_model_best:  # the last of all, as its searches take the place of this one in every worker
            report = replace(report, per_model_best=_own_bests(request, spec, question, store, context))
        return report, tuple(history)


def check_metric(request: CodesignRequest) -> None:
    entry_named(metrics, request.metric, "--metric")


def check_algorithm(request: CodesignRequest) -> None:
    entry_named(algorithms, request.algorithm, "--algorithm")
    if request.algorithm == EXACT and (request.budget or request.seed):
        message = "--budget and --seed are of black boxes; exact goes on to its proof"
        raise InvalidInput(f"{message}; leave them out, or name a black box", "--algorithm")
    if request.algorithm != EXACT and request.exhaustive:
        raise InvalidInput(f"--exhaustive checks bounds, and {request.algorithm} makes no use of them; leave one out")


def _searched(
    request: CodesignRequest,
    spec: CodesignSpec,
    question: JointQuestion,
    store: Store | None,
    history: list[Standing],
    context: SearchContext,
) -> JointFound | None:
    """The best system; `history` takes what the search tells of itself."""
    scorer = scorer_of(question)
    with _backend(request, spec, question, store, context) as backend:
        backend = replace(backend, watch=noted(backend.watch, history))
        if request.algorithm == EXACT:
            return joint_search(scorer, backend, is_exhaustive=request.exhaustive)
        num_most, rng = request.budget or NUM_MOST, Random(request.seed or SEED)
        found = black_box(scorer, backend, algorithms[request.algorithm], rng, num_most=num_most)
    if found is None and may_fit(scorer):
        message = f"none of the {num_most:,} points that {request.algorithm} looked at is a system that a plan fits"
        raise InvalidInput(f"{message}, and some may be; raise --budget, or leave --algorithm out")
    return found


@contextmanager
def _backend(
    request: CodesignRequest, spec: CodesignSpec, question: JointQuestion, store: Store | None, context: SearchContext
) -> Iterator[SearchBackend]:
    """The engine, the store and whoever watches."""
    facts = question_facts(question, metric=request.metric, network=spec.network, rule=spec.preset)
    kind = KIND if request.algorithm == EXACT else f"{KIND}, one by one"  # whichever black box asks
    if request.algorithm == EXACT:
        facts["exhaustive"] = request.exhaustive
    cases = question.cases
    with (
        context.resumed(store, kind, facts, score_names(cases)) as (known, keep),
        context.resumed(store, f"{kind}, uneven plans", facts, refined_names(cases)) as (known_refined, keep_refined),
        context.engine(question) as engine,
        context.codesigning(question.base.name) as watch,
    ):
        rows = Rows(question, scorer_of(question).even_plan)
        yield SearchBackend(
            score=lambda tasks: engine.map(score_task, tasks),
            refine=lambda tasks: engine.map(refine_task, tasks),
            known={point: score_of(row) for point, row in known.items()},
            known_refined={point: refined_of(row) for point, row in known_refined.items()},
            keep=lambda scores: None if store is None else keep(rows.scored(scores)),
            keep_refined=lambda systems: None if store is None else keep_refined(rows.refined(systems)),
            watch=watch,
        )


def _report(
    request: CodesignRequest,
    spec: CodesignSpec,
    metric: Metric,
    question: JointQuestion,
    found: JointFound,
    base: SystemAnswer | None,
    context: SearchContext,
) -> CodesignReport:
    others = [score for score in found.scored if score.point != found.best.point and score.loss < float("inf")]
    best = answer_of(question, found.best)
    return CodesignReport(
        name=spec.name,
        question=question,
        metric_name=request.metric,
        metric=metric,
        network=spec.network,
        preset=spec.preset,
        found=found,
        best=best,
        base=base,
        separate=_compared(request, question, base, context),
        others=tuple(answer_of(question, _even(question, one)) for one in others[: request.top]),
        sensitivity=_sensitivity(request, question, best, context),
        waterfall=None if base is None else waterfall(question, base, best, _error_frac(question, base)),
        algorithm=request.algorithm,
        assumed=spec.limits.assumed,
        is_compared=request.compare,
        asked=codesign_entries(spec),
    )


def _error_frac(question: JointQuestion, base: SystemAnswer) -> float:
    """How far the base's steps may be off, by the same runs as their intervals; of several models the most."""
    cluster = question.cluster(base.system)
    rows = load_residuals()
    return max(
        spread_frac(case.workload, cluster, own.plan, rows)
        for case, own in zip(question.cases, base.cases, strict=True)
    )


def _compared(
    request: CodesignRequest, question: JointQuestion, base: SystemAnswer | None, context: SearchContext
) -> Separate | None:
    if not request.compare or base is None:
        return None
    with context.announced("searching one after the other"):
        return separate(question, base)


def _sensitivity(
    request: CodesignRequest, question: JointQuestion, best: SystemAnswer, context: SearchContext
) -> Sensitivity | None:
    """Unasked only where it takes a moment: limits are raised by bounding every system again."""
    is_quick = not limits_of(question.budget) or question.space.num_points <= FEW_POINTS
    if not (is_quick if request.sensitivity is None else request.sensitivity):
        return None
    with context.announced("asking what more would buy"):
        return sensitivity_of(scorer_of(question), best)


def _own_bests(
    request: CodesignRequest, spec: CodesignSpec, question: JointQuestion, store: Store | None, context: SearchContext
) -> tuple[SystemAnswer, ...]:
    """Each model's own, to a proof: a study of its own each, by the same engine and in the same store."""
    proven = request.changed(algorithm=EXACT, exhaustive=False)

    def search(alone: Scorer) -> JointFound | None:
        hold(alone)
        with _backend(proven, spec, alone.question, store, context) as backend:
            return joint_search(alone, backend)

    return per_model_best(scorer_of(question), search)


def _even(question: JointQuestion, score: SystemScore) -> RefinedSystem:
    """A system with its best even plans, as they were scored."""
    scorer = scorer_of(question)
    cases = tuple(
        RefinedCase(
            plan=scorer.even_plan(index, score.point, case.plan),
            loss=case.loss,
            step_s=case.step_s,
            energy_j=case.energy_j,
            low=case.low,
        )
        for index, case in enumerate(score.cases)
    )
    return RefinedSystem(point=score.point, loss=score.loss, low=score.low, cases=cases)
