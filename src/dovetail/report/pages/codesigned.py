"""A joint search as a page: the best system, the proof, its plans, and what more would buy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dovetail.evaluate import Infeasible, evaluate
from dovetail.hardware.chip import Chip
from dovetail.report.asked import format_plan, model_pair
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.convergence import convergence
from dovetail.report.charts.floorplan import area_by_part, floorplan, power_by_part
from dovetail.report.charts.gains import gains_by_model
from dovetail.report.charts.memory_time import memory_over_time
from dovetail.report.charts.pipeline import pipeline_timeline
from dovetail.report.charts.resources import resources_gain
from dovetail.report.charts.roofline import operators_roofline
from dovetail.report.charts.stage_time import time_by_stage
from dovetail.report.charts.systems import designs_across, systems_by_area
from dovetail.report.charts.topology import step_topology
from dovetail.report.charts.trail import Mark, Trail
from dovetail.report.codesigned import (
    KNOB_LABELS,
    CodesignReport,
    codesigned_figures,
    page_sentence,
    proof,
    unit_of,
)
from dovetail.report.figures import tables_of
from dovetail.report.labels import gain, likely, number, percent
from dovetail.report.page import Card, Page, Section
from dovetail.report.waterfall import waterfall_chart
from dovetail.search.codesign.answers import gain_frac
from dovetail.search.codesign.joint import Standing
from dovetail.search.codesign.question import Budget, JointQuestion
from dovetail.search.codesign.systems import system_chip
from dovetail.units import format_rounded_s, format_s

ASKED = ("name", "metric", "algorithm", "base", "network", "preset", "budget", "space")  # of the record: what was asked


def codesigned_page(report: CodesignReport, history: Sequence[Standing] = ()) -> Page:
    """`history` is what the search told as it went on, if somebody kept it."""
    _, *tables = tables_of(codesigned_figures(report))
    searched = trail_of(report, history)
    chip = system_chip(report.question.base, report.best.system)
    base = report.question.base
    return Page(
        title=report.name or report.question.cases[0].name,
        sentence=f"{page_sentence(report)}.",
        cards=_cards(report),
        asked=tuple(asked_of(report.question, report.metric_name, report.network)),
        sections=(
            Section(
                title="The system, drawn",
                charts=(*floorplan(_named(chip, "best system"), base), *gains_by_model(report)),
            ),
            *_why(report, _named(chip, "best system"), base),
            *step_sections(report),
            *_sure(report),
            Section(title="What else was considered", charts=(systems_by_area(report), *designs_across(report))),
            Section(
                title="Proof",
                sentences=(f"{proof(report)[:1].upper()}{proof(report)[1:]}.",),
                charts=(convergence(searched),) if searched.marks else (),
                is_folded=True,
            ),
            *(Section(title=table.title, tables=(table,), is_folded=True) for table in tables),
        ),
    )


def asked_of(question: JointQuestion, metric: str, network: str) -> Iterator[tuple[str, str]]:
    """The models, what is open, the limits."""
    for case in question.cases:
        weight = f"; counts {case.weight:g} times" if len({one.weight for one in question.cases}) > 1 else ""
        label, words = model_pair(case.workload)
        yield label, words + weight
    open_knobs = [knob for knob in question.space.knobs if len(knob.values) > 1]
    count = math.prod(len(knob.values) for knob in open_knobs)
    names = ", ".join(KNOB_LABELS[knob.name] for knob in open_knobs)
    yield "Open", f"{count:,} systems built on {question.base.name}: {names}" if open_knobs else "nothing"
    sizes = sorted({int(value) for knob in question.space.knobs if knob.name == "num_devices" for value in knob.values})
    yield "Cluster", f"{' or '.join(f'{size:,}' for size in sizes)} devices joined by {network}"
    yield "Objective", f"{metric}, with the best plan of each model on each system"
    limits = [f"{name} at most {number(limit)} {unit}" for name, limit, unit in set_limits(question.budget)]
    yield "Limits", "; ".join(limits) or "none"


def set_limits(budget: Budget) -> Iterator[tuple[str, float, str]]:
    """Limits that are set: what, how much, and in which unit."""
    words = {
        "area_mm2": ("area of one chip", "mm2"),
        "power_w": ("power of one chip", "W"),
        "total_area_mm2": ("area of all chips", "mm2"),
        "total_power_w": ("power of all devices", "W"),
        "total_usd": ("cost of all devices", "$"),
    }
    for name, (label, unit) in words.items():
        limit = getattr(budget, name)
        if math.isfinite(limit):
            yield label, limit, unit


def _named(chip: Chip, name: str) -> Chip:
    return replace(chip, name=name)


def _why(report: CodesignReport, chip: Chip, base: Chip) -> tuple[Section, ...]:
    charts: tuple[Chart, ...] = ()
    if report.waterfall is not None:
        charts += (waterfall_chart(report.waterfall, base.name),)
    charts += (*area_by_part((chip, base)), *power_by_part((chip, base)))
    charts += () if report.sensitivity is None else resources_gain(report.sensitivity)
    return (Section(title="Why it is better", charts=charts),) if charts else ()


def _sure(report: CodesignReport) -> tuple[Section, ...]:
    """How likely the gain is real, and what the search proves."""
    said = []
    if report.waterfall is not None:
        found = report.waterfall
        said.append(
            f"It is truly better than {report.question.base.name} with {likely(found.chance_frac)}, if the step of"
            f" each is off by {percent(found.family_error_frac, 0)}, as published runs of this kind are, independently."
        )
    gap = report.found.gap_frac
    said.append(
        "In the model no other system of the space is better: the search is exhaustive or bounds what it left out."
        if gap == 0
        else f"In the model another system could be better by {percent(1 / (1 - gap) - 1)} at the most."
    )
    return (Section(title="How sure this is", sentences=tuple(said)),)


def step_sections(report: CodesignReport) -> tuple[Section, ...]:
    """Where time and memory of every model go on the best system."""
    found = []
    for place, (case, own) in enumerate(zip(report.question.cases, report.best.cases, strict=True)):
        outcome = evaluate(case.workload, report.question.cluster(report.best.system), own.plan)
        if isinstance(outcome, Infeasible):  # the search rounds otherwise than the evaluation of one plan
            continue
        charts = (
            *pipeline_timeline(outcome),
            time_by_stage(outcome),
            *memory_over_time(outcome),
            *(step_topology(outcome) if place == 0 else ()),
            operators_roofline(outcome),
        )
        ending = "" if place == 0 else f"-{place + 1}"
        found.append(
            Section(
                title=f"One step of {case.name} on it",
                sentences=(f"The plan: {format_plan(own.plan)}; {format_s(outcome.step.step_s)} per step.",),
                charts=tuple(replace(chart, name=chart.name + ending) for chart in charts),
            )
        )
    return tuple(found)


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
    best, census, question = report.best, report.found.census, report.question
    gap = "optimal in the model" if report.found.gap_frac == 0 else f"gap {percent(report.found.gap_frac, 2)}"
    cards = []
    if report.base is not None:
        better = gain(gain_frac(best, report.base, report.weights))
        cards.append(Card(label=f"{report.metric_name.capitalize()} over {question.base.name}", value=better))
    cards.append(
        Card(
            label="The system",
            value=f"{best.num_devices:,} devices",
            note=f"{best.system['num_tensor']:,.0f} tensor cores of {best.system['num_rows']:.0f} x"
            f" {best.system['num_cols']:.0f} each",
        )
    )
    for place, case in enumerate(question.cases):
        figure = f"{number(report.figure(place, best))} {unit_of(report, place)}"
        cards.append(
            Card(label=case.name, value=figure, note=f"{format_rounded_s(best.cases[place].step_s, 3)} per step")
        )
    cards.append(Card(label="One chip", value=f"{number(best.area_mm2)} mm2", note=f"{number(best.power_w)} W"))
    cards.append(Card(label="Searched", value=f"{census.num_systems:,} systems", note=gap))
    return tuple(cards)
