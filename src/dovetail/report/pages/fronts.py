"""A Pareto front as a page: the front itself over each axis, its proof, and systems along it."""

from __future__ import annotations

from dovetail.report.charts.front import front_charts
from dovetail.report.figures import tables_of
from dovetail.report.fronts import AXIS_WORDS, FrontReport, front_figures, proof, sentence
from dovetail.report.labels import number
from dovetail.report.page import Card, Page, Section
from dovetail.report.pages.codesigned import asked_of
from dovetail.units import GIGA, KILO, MEGA

ASKED = ("name", "axes", "metric", "base", "network", "preset", "budget", "space")  # of the record: what was asked


def front_page(report: FrontReport) -> Page:
    _, shown, notes = tables_of(front_figures(report))
    found = report.found
    return Page(
        title=report.name or report.question.cases[0].name,
        sentence=f"{sentence(report)}.",
        cards=(
            Card(
                label="On the front", value=f"{len(found.systems):,}", note=f"of {found.census.num_systems:,} systems"
            ),
            *(_span(report, axis) for axis in found.axes),
        ),
        asked=tuple(asked_of(report.question, report.metric_name, report.network)),
        sections=(
            Section(title="The front", charts=front_charts(report)),
            Section(title="Along the front", tables=(shown,)),
            Section(title="Proof", sentences=(f"{proof(report)[:1].upper()}{proof(report)[1:]}.",), is_folded=True),
            Section(title=notes.title, tables=(notes,), is_folded=True),
        ),
    )


def _span(report: FrontReport, axis: str) -> Card:
    """From the least to the most of the front on one axis."""
    places = [report.on(axis, one) for one in report.found.systems]
    words = AXIS_WORDS.get(axis, axis)
    return Card(
        label=words.capitalize(), value=f"{_brief(min(places))} to {_brief(max(places))}", note=report.unit(axis)
    )


def _brief(value: float) -> str:
    """In few characters, as a card is small."""
    for size, sign in ((GIGA, " G"), (MEGA, " M"), (KILO, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{sign}"
    return number(value)
