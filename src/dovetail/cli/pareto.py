"""`dovetail pareto`: from models and limits to every system that no other beats, kept in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.cli.codesign import EXAMPLE, question_of, tell_nothing
from dovetail.cli.engines import EngineAsked, engine_for
from dovetail.cli.naming import full_name
from dovetail.cli.progress import busy, front_progress
from dovetail.cli.screen import show_json, show_tables, write
from dovetail.cli.storing import chosen_store, resumed
from dovetail.files.codesign import CodesignSaid, CodesignSpec, load_codesign
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.fronts import FrontReport, front_tables
from dovetail.report.fronts_picture import front_svg
from dovetail.report.fronts_record import front_csv, front_record
from dovetail.search.codesign.answers import base_answer, with_reference
from dovetail.search.codesign.pareto import ParetoFound, ParetoHands, checked_axes, metric_of, pareto_front
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.rows import question_facts, score_names, score_of, score_row
from dovetail.search.codesign.tasks import bound_task, score_task, scorer_of
from dovetail.search.metrics import metrics
from dovetail.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoAsked:
    """What was typed; nothing, or 0, where it was left out."""

    spec: str
    said: CodesignSaid
    axes: str
    store: str
    engine: EngineAsked
    csv: str
    svg: str
    num_shown: int


def answer(asked: ParetoAsked, *, as_json: bool) -> bool:
    """Shows the front, and says whether there is one."""
    axes = checked_axes([name.strip() for name in asked.axes.split(",") if name.strip()])
    for file in (asked.csv, asked.svg):
        if file:
            check_writable(Path(file), is_forced=True)
    said = replace(asked.said, base=full_name(asked.said.base, "--base")) if asked.said.base else asked.said
    spec = load_codesign(asked.spec or EXAMPLE, said)
    with chosen_store(asked.store) as store:
        question = _weighed(question_of(spec, metrics[metric_of(axes)]))
        found = _found(asked, spec, question, axes, store)
    if not found.systems:
        tell_nothing(spec, question, as_json=as_json)
        return False
    report = FrontReport(
        name=spec.name,
        question=question,
        metric_name=metric_of(axes),
        network=spec.network,
        preset=spec.preset,
        found=found,
        plan_of=scorer_of(question).even_plan,
        num_shown=asked.num_shown,
    )
    _show(asked, report, as_json=as_json)
    return True


def _weighed(question: JointQuestion) -> JointQuestion:
    """Of several models, each by what it comes to on the base chip."""
    if len(question.cases) == 1:
        return question
    with busy("planning for the base chip"):
        return with_reference(question, base_answer(question))


def _found(
    asked: ParetoAsked, spec: CodesignSpec, question: JointQuestion, axes: tuple[str, ...], store: Store | None
) -> ParetoFound:
    with _hands(asked, spec, question, axes, store) as hands:
        return pareto_front(question, hands, axes)


@contextmanager
def _hands(
    asked: ParetoAsked, spec: CodesignSpec, question: JointQuestion, axes: tuple[str, ...], store: Store | None
) -> Iterator[ParetoHands]:
    """The engine, the store and the progress bar; what is scored is the same whatever the axes are."""
    facts = question_facts(question, metric=metric_of(axes), network=spec.network, rule=spec.preset)
    with (
        resumed(store, "pareto", facts, score_names(question.cases)) as (known, keep),
        engine_for(asked.engine, question) as engine,
        front_progress() as watch,
    ):
        yield ParetoHands(
            bound=lambda tasks: engine.map(bound_task, tasks),
            score=lambda tasks: engine.map(score_task, tasks),
            known={point: score_of(row) for point, row in known.items()},
            keep=lambda scores: keep([score_row(score) for score in scores]),
            watch=watch,
        )


def _show(asked: ParetoAsked, report: FrontReport, *, as_json: bool) -> None:
    written = []
    if asked.csv:
        write_file(Path(asked.csv), front_csv(report))
        written.append(asked.csv)
    if asked.svg:
        write_file(Path(asked.svg), front_svg(report))
        written.append(asked.svg)
    show_json(front_record(report)) if as_json else show_tables(front_tables(report))
    if written and not as_json:
        write(f"\nwritten: {one_line(', '.join(written))}\n")
