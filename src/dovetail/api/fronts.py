"""Every system that no other beats: from what was asked to the front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from dovetail.api.answer import Answer, inputs_in, plain_page
from dovetail.api.joint import NoSystem, loaded, no_system, noted, question_of
from dovetail.api.requests.searches import ParetoRequest
from dovetail.api.search_context import SearchContext
from dovetail.errors import InvalidInput
from dovetail.files.codesign import CodesignSpec
from dovetail.files.codesign_formats import codesign_entries
from dovetail.files.written import write_file
from dovetail.report.figures import record_of, tables_of
from dovetail.report.fronts import FrontReport, front_csv, front_figures, sentence
from dovetail.report.nothing_fits import nothing_tables
from dovetail.report.page import Page
from dovetail.report.pages.fronts import ASKED, front_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.codesign.answers import base_answer, with_reference
from dovetail.search.codesign.pareto import (
    FrontStanding,
    FrontSystem,
    ParetoBackend,
    ParetoFound,
    checked_axes,
    metric_of,
    pareto_front,
)
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.rows import Rows, question_facts, score_names, score_of
from dovetail.search.codesign.tasks import bound_task, score_task, scorer_of
from dovetail.search.metrics import metrics
from dovetail.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Front(Answer):
    """The Pareto front, or that no system is within the limits."""

    outcome: FrontReport | NoSystem
    history: tuple[FrontStanding, ...]
    call: str

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, FrontReport)

    @property
    def systems(self) -> tuple[FrontSystem, ...]:
        """The best by the first axis first."""
        return self.outcome.found.systems if isinstance(self.outcome, FrontReport) else ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every system of the front as a row for a table: its knobs, what it takes and what it gives."""
        return list(self.record["front"]) if self.fits else []

    @property
    def headline(self) -> str:
        return sentence(self.outcome) if isinstance(self.outcome, FrontReport) else self.tables[0].title

    @property
    def tables(self) -> tuple[Table, ...]:
        found = self.outcome
        return tables_of(front_figures(found)) if isinstance(found, FrontReport) else nothing_tables(found.why)

    @property
    def _record(self) -> Record:
        found = self.outcome
        return record_of(front_figures(found)) if isinstance(found, FrontReport) else found.why

    @property
    def page(self) -> Page:
        if isinstance(self.outcome, NoSystem):
            return plain_page(self.headline, self.tables)
        return front_page(self.outcome)

    @property
    def inputs(self) -> Record:
        return inputs_in(self.record, ASKED)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Writes every system of the front."""
        if isinstance(self.outcome, NoSystem):
            raise InvalidInput("no system is within the limits, so there is no front to write; check .fits first")
        write_file(Path(path), front_csv(self.outcome))


def check_axes(request: ParetoRequest) -> None:
    """Raises where the axes are not some that a front can be over."""
    checked_axes(list(request.axes))


def fronted(request: ParetoRequest, context: SearchContext) -> Front:
    """The front, or that there is no system."""
    axes = checked_axes(list(request.axes))
    spec = loaded(request)
    history: list[FrontStanding] = []
    with context.store() as store:
        question, is_base_fit = _weighed(question_of(spec, metrics[metric_of(axes)]), context)
        with _backend(spec, question, axes, store, history, context) as backend:
            found = pareto_front(question, backend, axes)
    if not found.systems:
        return Front(outcome=no_system(spec, question), history=tuple(history), call=request.call)
    report = replace(_report(request, spec, question, axes, found), is_base_fit=is_base_fit)
    return Front(outcome=report, history=tuple(history), call=request.call)


def _report(
    request: ParetoRequest, spec: CodesignSpec, question: JointQuestion, axes: tuple[str, ...], found: ParetoFound
) -> FrontReport:
    return FrontReport(
        name=spec.name,
        question=question,
        metric_name=metric_of(axes),
        network=spec.network,
        preset=spec.preset,
        found=found,
        plan_of=scorer_of(question).even_plan,
        num_shown=request.top,
        assumed=spec.limits.assumed,
        asked=codesign_entries(spec),
    )


def _weighed(question: JointQuestion, context: SearchContext) -> tuple[JointQuestion, bool]:
    """Of several models, each by what it comes to on the base chip; and whether that can run them."""
    if len(question.cases) == 1:
        return question, True
    with context.announced("planning for the base chip"):
        base = base_answer(question)
    return with_reference(question, base), base is not None


@contextmanager
def _backend(
    spec: CodesignSpec,
    question: JointQuestion,
    axes: tuple[str, ...],
    store: Store | None,
    history: list[FrontStanding],
    context: SearchContext,
) -> Iterator[ParetoBackend]:
    """The engine, the store and whoever watches; what is scored is the same whatever the axes are."""
    facts = question_facts(question, metric=metric_of(axes), network=spec.network, rule=spec.preset)
    with (
        context.resumed(store, "pareto", facts, score_names(question.cases)) as (known, keep),
        context.engine(question) as engine,
        context.pareto() as watch,
    ):
        rows = Rows(question, scorer_of(question).even_plan)
        yield ParetoBackend(
            bound=lambda tasks: engine.map(bound_task, tasks),
            score=lambda tasks: engine.map(score_task, tasks),
            known={point: score_of(row) for point, row in known.items()},
            keep=lambda scores: None if store is None else keep(rows.scored(scores)),
            watch=noted(watch, history),
        )
