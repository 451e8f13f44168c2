"""Systems that a joint search scored: what each comes to, by the area of its chip."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import BLUE, GREY, SKY, VERMILLION
from dovetail.report.codesigned import CodesignReport, system_in_brief, unit_of
from dovetail.report.labels import number
from dovetail.report.table import Table
from dovetail.search.codesign.answers import SystemAnswer
from dovetail.search.codesign.question import places_of, systems_at
from dovetail.search.codesign.systems import built_systems
from dovetail.search.metrics import ChipFigures

MOST_DOTS = 2000  # more hide each other


def systems_by_area(report: CodesignReport) -> Chart:
    """The best, others that were scored, and the base chip where it runs the models."""
    unit, model = unit_of(report, 0), report.question.cases[0].name
    across, up = axis("area of a chip, mm2"), axis(f"{model}, {unit}", rangemode="tozero", tickformat="~s")
    return Chart(
        name="systems-by-area",
        title=f"Systems by the area of a chip, and what they come to for {model}",
        alt=f"The best system has chips of {number(report.best.area_mm2)} mm2 and comes to"
        f" {number(report.figure(0, report.best))} {unit}.",
        figure={
            "data": [_scored(report), *(_dots(report, group) for group in _groups(report))],
            "layout": layout(height=380, xaxis=across, yaxis=up),
        },
        table=Table(
            title="Systems",
            columns=("", "system", "mm2", "W", unit),
            rows=tuple(
                (group.name, _brief(one), number(one.area_mm2), number(one.power_w), number(report.figure(0, one)))
                for group in _groups(report)
                for one in group.systems
            ),
            align="llrrr",
        ),
    )


def _scored(report: CodesignReport) -> Figure:
    """Every system that was scored, by its best plan of equal stages; of very many the best."""
    question, case = report.question, report.question.cases[0]
    scores = [score for score in report.found.scored if math.isfinite(score.loss)][:MOST_DOTS]
    systems = systems_at(question.space, places_of([score.point for score in scores]))
    built = built_systems(question.base, systems)
    num_samples = case.workload.training_graph().num_tokens
    figures = [
        ChipFigures(
            step_s=score.cases[0].step_s,
            energy_j=score.cases[0].energy_j,
            power_w=float(built.power_w[row]),
            price_usd=float(built.price_usd[row]),
            num_devices=int(systems["num_devices"][row]),
            num_samples=num_samples,
        )
        for row, score in enumerate(scores)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "scored, by plans of equal stages",
        "x": [round(float(area_mm2), 2) for area_mm2 in built.area_mm2],
        "y": [float(report.metric.figure(one)) for one in figures],
        "marker": {"color": SKY, "size": 6, "opacity": 0.5},
        "hovertemplate": f"%{{x:.0f}} mm2, %{{y:.4~g}} {said(unit_of(report, 0))}<extra></extra>",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Systems that are drawn alike."""

    name: str
    systems: tuple[SystemAnswer, ...]
    colour: str
    symbol: str
    width_px: int


def _groups(report: CodesignReport) -> list[_Group]:
    base = () if report.base is None else (report.base,)
    base_name = f"{report.question.base.name}, the base"
    every = (
        _Group(name="the best of the others", systems=report.others, colour=GREY, symbol="circle", width_px=9),
        _Group(name=base_name, systems=base, colour=BLUE, symbol="square", width_px=12),
        _Group(name="the best", systems=(report.best,), colour=VERMILLION, symbol="diamond", width_px=15),
    )
    return [group for group in every if group.systems]


def _dots(report: CodesignReport, group: _Group) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": said(group.name),
        "x": [one.area_mm2 for one in group.systems],
        "y": [report.figure(0, one) for one in group.systems],
        "text": [said(_brief(one)) for one in group.systems],
        "marker": {"color": group.colour, "symbol": group.symbol, "size": group.width_px},
        "hovertemplate": f"%{{text}}<br>%{{x:.0f}} mm2, %{{y:.4~g}} {said(unit_of(report, 0))}<extra></extra>",
    }


def _brief(one: SystemAnswer) -> str:
    return f"{system_in_brief(one.system)}, {one.num_devices:,} devices"
