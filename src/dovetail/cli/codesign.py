"""`dovetail codesign`: from models and limits to the best system, chip and plan together, kept in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.cli.engines import EngineAsked, engine_for
from dovetail.cli.naming import full_name
from dovetail.cli.progress import busy, joint_progress
from dovetail.cli.screen import show_json, show_tables, write
from dovetail.cli.storing import chosen_store, resumed
from dovetail.errors import InvalidInput
from dovetail.files.codesign import CodesignSaid, CodesignSpec, load_codesign
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.codesigned import CodesignReport, codesigned_tables, picture
from dovetail.report.codesigned_record import codesigned_record
from dovetail.report.page import page_html
from dovetail.search.codesign.answers import (
    Separate,
    SystemAnswer,
    answer_of,
    base_answer,
    separate,
    with_reference,
)
from dovetail.search.codesign.joint import Hands, JointFound, joint_search
from dovetail.search.codesign.networks import network_named
from dovetail.search.codesign.own_bests import own_bests
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.refining import RefinedCase, RefinedSystem
from dovetail.search.codesign.rows import (
    question_facts,
    refined_names,
    refined_of,
    refined_row,
    score_names,
    score_of,
    score_row,
)
from dovetail.search.codesign.scoring import SystemScore
from dovetail.search.codesign.sensitivity import Sensitivity, limits_of, sensitivity_of
from dovetail.search.codesign.tasks import refine_task, score_task, scorer_of
from dovetail.search.metrics import Metric, metrics
from dovetail.store import Store
from dovetail.store.version import model_version

ASKED = ("name", "metric", "base", "network", "preset", "budget", "space")  # of the answer: what was asked
FEW_POINTS = 500_000  # of a space: bounded in a few seconds
EXAMPLE = "gpt2-1.5b"  # what is asked where nothing is said: small enough to see the answer at once


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesignAsked:
    """What was typed; nothing, or 0, where it was left out."""

    spec: str
    said: CodesignSaid
    metric: str
    store: str
    engine: EngineAsked
    num_shown: int
    is_exhaustive: bool
    is_compared: bool
    html: str = ""
    has_sensitivity: bool | None = None
    has_own_bests: bool = False


def answer(asked: CodesignAsked, *, as_json: bool) -> bool:
    """Shows the best system, and says whether there is one."""
    metric = _metric(asked.metric)
    if asked.html:
        check_writable(Path(asked.html), is_forced=True)
    said = replace(asked.said, base=full_name(asked.said.base, "--base")) if asked.said.base else asked.said
    spec = load_codesign(asked.spec or EXAMPLE, said)
    with chosen_store(asked.store) as store:
        question = question_of(spec, metric)
        with busy("planning for the base chip"):
            base = base_answer(question)
        question = with_reference(question, base)
        found = _searched(asked, spec, question, store)
        if found is None:
            tell_nothing(spec, question, as_json=as_json)
            return False
        report = _report(asked, spec, metric, question, found, base)
    record = codesigned_record(report)
    tables = codesigned_tables(report)
    if asked.html:
        asked_for = {name: record[name] for name in ASKED}
        page = page_html(spec.name or spec.cases[0].name, tables, picture(report), asked_for, model_version())
        write_file(Path(asked.html), page)
    show_json(record) if as_json else show_tables(tables)
    if asked.html and not as_json:
        write(f"\nreport: {one_line(asked.html)}\n")
    return True


def _metric(name: str) -> Metric:
    try:
        return metrics[name]
    except InvalidInput as error:
        raise InvalidInput(error.message, "--metric") from None


def question_of(spec: CodesignSpec, metric: Metric) -> JointQuestion:
    return JointQuestion(
        cases=spec.cases,
        base=spec.base,
        network=network_named(spec.network),
        space=spec.space,
        budget=spec.budget,
        metric=metric,
        reference_losses=(1.0,) * len(spec.cases),
        rule=spec.rule,
    )


def _searched(
    asked: CodesignAsked, spec: CodesignSpec, question: JointQuestion, store: Store | None
) -> JointFound | None:
    with _hands(asked, spec, question, store) as hands:
        return joint_search(scorer_of(question), hands, is_exhaustive=asked.is_exhaustive)


@contextmanager
def _hands(asked: CodesignAsked, spec: CodesignSpec, question: JointQuestion, store: Store | None) -> Iterator[Hands]:
    """The engine, the store and the progress bar that were asked for."""
    facts = question_facts(question, metric=asked.metric, network=spec.network, rule=spec.preset)
    facts["exhaustive"] = asked.is_exhaustive
    cases = question.cases
    with (
        resumed(store, "codesign", facts, score_names(cases)) as (known, keep),
        resumed(store, "codesign, uneven plans", facts, refined_names(cases)) as (known_refined, keep_refined),
        engine_for(asked.engine, question) as engine,
        joint_progress(question.base.name) as watch,
    ):
        yield Hands(
            score=lambda tasks: engine.map(score_task, tasks),
            refine=lambda tasks: engine.map(refine_task, tasks),
            known={point: score_of(row) for point, row in known.items()},
            known_refined={point: refined_of(row) for point, row in known_refined.items()},
            keep=lambda scores: keep([score_row(score) for score in scores]),
            keep_refined=lambda systems: keep_refined([refined_row(system) for system in systems]),
            watch=watch,
        )


def _report(
    asked: CodesignAsked,
    spec: CodesignSpec,
    metric: Metric,
    question: JointQuestion,
    found: JointFound,
    base: SystemAnswer | None,
) -> CodesignReport:
    others = [score for score in found.scored if score.point != found.best.point and score.loss < float("inf")]
    best = answer_of(question, found.best)
    return CodesignReport(
        name=spec.name,
        question=question,
        metric_name=asked.metric,
        metric=metric,
        network=spec.network,
        preset=spec.preset,
        found=found,
        best=best,
        base=base,
        separate=_compared(asked, question, base),
        others=tuple(answer_of(question, _even(question, one)) for one in others[: asked.num_shown]),
        sensitivity=_sensitivity(asked, question, best),
        own_bests=_own_bests(asked, question),
    )


def _compared(asked: CodesignAsked, question: JointQuestion, base: SystemAnswer | None) -> Separate | None:
    if not asked.is_compared or base is None:
        return None
    with busy("searching one after the other"):
        return separate(question, base)


def _sensitivity(asked: CodesignAsked, question: JointQuestion, best: SystemAnswer) -> Sensitivity | None:
    """Unasked only where it takes a moment: limits are raised by bounding every system again."""
    is_quick = not limits_of(question.budget) or question.space.num_points <= FEW_POINTS
    if not (is_quick if asked.has_sensitivity is None else asked.has_sensitivity):
        return None
    with busy("asking what more would buy"):
        return sensitivity_of(scorer_of(question), best)


def _own_bests(asked: CodesignAsked, question: JointQuestion) -> tuple[SystemAnswer, ...]:
    if not asked.has_own_bests:
        return ()
    with busy("searching for each model alone"):
        return own_bests(scorer_of(question))


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


def tell_nothing(spec: CodesignSpec, question: JointQuestion, *, as_json: bool) -> None:
    from dovetail.report.nothing_fits import nothing_record, nothing_tables

    told = nothing_record(spec.name, question)
    show_json(told) if as_json else show_tables(nothing_tables(told))
