"""A joint search as a page: the best system, the proof, its plans, and what more would buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.evaluate import Infeasible, evaluate
from dovetail.report.charts.convergence import convergence
from dovetail.report.charts.resources import resources_gain
from dovetail.report.charts.systems import systems_by_area
from dovetail.report.charts.trail import Mark, Trail
from dovetail.report.codesigned import CodesignReport, codesigned_figures, proof, sentence, system_in_brief, unit_of
from dovetail.report.figures import tables_of
from dovetail.report.labels import gain, number, percent, plan_in_brief
from dovetail.report.page import Card, Page, Section
from dovetail.report.pages.simulated import outcome_sections
from dovetail.report.waterfall import waterfall_chart
from dovetail.search.codesign.answers import gain_frac
from dovetail.search.codesign.joint import Standing

ASKED = ("name", "metric", "algorithm", "base", "network", "preset", "budget", "space")  # of the record: what was asked


def codesigned_page(report: CodesignReport, history: Sequence[Standing] = ()) -> Page:
    """`history` is what the search told as it went on, if somebody kept it."""
    _, *tables = tables_of(codesigned_figures(report))
    searched = trail_of(report, history)
    return Page(
        title=report.name or report.question.cases[0].name,
        sentence=f"{sentence(report)}.",
        cards=_cards(report),
        sections=(
            Section(
                title="Proof", sentences=(proof(report),), charts=(convergence(searched),) if searched.marks else ()
            ),
            Section(title="The systems that were scored", charts=(systems_by_area(report),)),
            *_waterfall(report),
            *_resources(report),
            *(Section(title=table.title, tables=(table,)) for table in tables),
            *step_sections(report),
        ),
    )


def _waterfall(report: CodesignReport) -> tuple[Section, ...]:
    if report.waterfall is None:
        return ()
    chart = waterfall_chart(report.waterfall, report.question.base.name)
    return (Section(title="Where the gain comes from", charts=(chart,)),)


def _resources(report: CodesignReport) -> tuple[Section, ...]:
    charts = () if report.sensitivity is None else resources_gain(report.sensitivity)
    return (Section(title="What more would buy", charts=charts),) if charts else ()


def step_sections(report: CodesignReport) -> tuple[Section, ...]:
    """Where time and memory of the first model go on the best system."""
    case, own = report.question.cases[0], report.best.cases[0]
    cluster = report.question.cluster(report.best.system)
    found = evaluate(case.workload, cluster, own.plan)
    if isinstance(found, Infeasible):  # the search rounds otherwise than the evaluation of one plan
        return ()
    return tuple(replace(one, title=f"{one.title}: {case.name}") for one in outcome_sections(found) if one.charts)


def trail_of(report: CodesignReport, history: Sequence[Standing]) -> Trail:
    """The search as gains over the base chip, its phases one after the other."""
    base = report.question.base.name
    marks: list[Mark] = []
    offset, phase = 0, ""
    for now in history:
        if now.phase != phase:
            offset, phase = (marks[-1].num_done if marks else 0), now.phase
        marks.append(Mark(num_done=offset + now.num_done, best=1 / now.loss, bound=1 / now.bound if now.bound else 0.0))
    return Trail(
        counted="systems",
        done="scored or refined",  # refined: scored again, with uneven stages
        unit=f"times {base}",
        is_more_better=True,
        marks=tuple(marks),
        words=lambda times: f"{number(times)} times {base}",
    )


def _cards(report: CodesignReport) -> tuple[Card, ...]:
    best, census = report.best, report.found.census
    gap = "optimal in the model" if report.found.gap_frac == 0 else f"gap {percent(report.found.gap_frac, 2)}"
    cards = [
        Card(label="The system", value=f"{best.num_devices:,} devices", note=system_in_brief(best.system)),
        Card(
            label=report.metric_name.capitalize(),
            value=f"{number(report.figure(0, best))} {unit_of(report, 0)}",
            note=f"{report.question.cases[0].name}: {plan_in_brief(best.cases[0].plan)}",
        ),
        Card(label="A chip", value=f"{number(best.area_mm2)} mm2", note=f"{number(best.power_w)} W"),
        Card(label="Searched", value=f"{census.num_systems:,} systems", note=gap),
    ]
    if report.base is not None:
        better = gain(gain_frac(best, report.base, report.weights))
        cards.insert(2, Card(label=f"Over {report.question.base.name}", value=better, note="with its best plan"))
    return tuple(cards)
