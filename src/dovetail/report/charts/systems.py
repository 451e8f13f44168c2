"""Systems that a joint search scored: what each comes to, by the area of its chip."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import BLUE, GREY, SKY, VERMILLION
from dovetail.report.charts.parallel_coordinates import Coordinate, importances, parallel_coordinates
from dovetail.report.codesigned import KNOB_LABELS, CodesignReport, system_in_brief, unit_of
from dovetail.report.labels import number
from dovetail.report.table import Table
from dovetail.search.codesign.answers import SystemAnswer, gain_frac
from dovetail.search.codesign.question import places_of, systems_at
from dovetail.search.codesign.scoring import SystemScore
from dovetail.search.codesign.system_labels import value_label
from dovetail.search.codesign.systems import built_systems
from dovetail.search.metrics import ChipFigures

MOST_DOTS = 2000  # more hide each other


def systems_by_area(report: CodesignReport) -> Chart:
    """The best, others that were scored, and the base chip where it runs the models; several models count together."""
    unit, of_what = _unit(report), _of_what(report)
    across, up = axis("area of one chip, mm2"), axis(unit, rangemode="tozero", tickformat="~s")
    return Chart(
        name="systems-by-area",
        title=f"Systems by the area of one chip, and what they come to for {of_what}",
        alt=f"The best system has chips of {number(report.best.area_mm2)} mm2 and comes to"
        f" {number(_height(report, report.best))} {unit}.",
        figure={
            "data": [_scored(report), *(_dots(report, group) for group in _groups(report))],
            "layout": layout(height=380, xaxis=across, yaxis=up),
        },
        table=Table(
            title="Systems",
            columns=("", "system", "mm2", "W", unit),
            rows=tuple(
                (group.name, _brief(one), number(one.area_mm2), number(one.power_w), number(_height(report, one)))
                for group in _groups(report)
                for one in group.systems
            ),
            align="llrrr",
        ),
    )


def _is_together(report: CodesignReport) -> bool:
    """Whether several models are drawn as one number: in times of the base chip."""
    return len(report.question.cases) > 1 and report.base is not None


def _of_what(report: CodesignReport) -> str:
    names = [case.name for case in report.question.cases]
    return " and ".join(names) if _is_together(report) else names[0]


def _unit(report: CodesignReport) -> str:
    return f"times {report.question.base.name}" if _is_together(report) else unit_of(report, 0)


def _height(report: CodesignReport, one: SystemAnswer) -> float:
    """What a system comes to, as it is drawn."""
    if not _is_together(report) or report.base is None:
        return report.figure(0, one)
    return 1.0 + gain_frac(one, report.base, report.weights)


def _scored_rows(report: CodesignReport) -> tuple[list[SystemScore], list[float], list[float]]:
    """Every system that was scored, by its best plan of equal stages, of very many the best: areas and heights."""
    question, case = report.question, report.question.cases[0]
    scores = [score for score in report.found.scored if math.isfinite(score.loss)][:MOST_DOTS]
    systems = systems_at(question.space, places_of([score.point for score in scores]))
    built = built_systems(question.base, systems)
    areas = [round(float(area_mm2), 2) for area_mm2 in built.area_mm2]
    if _is_together(report) and report.base is not None:
        return scores, areas, [report.base.loss / score.loss for score in scores]
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
    return scores, areas, [float(report.metric.figure(one)) for one in figures]


def _scored(report: CodesignReport) -> Figure:
    _, areas, heights = _scored_rows(report)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "scored, by plans of equal stages",
        "x": areas,
        "y": heights,
        "marker": {"color": SKY, "size": 6, "opacity": 0.5},
        "hovertemplate": f"%{{x:.0f}} mm2, %{{y:.4~g}} {said(_unit(report))}<extra></extra>",
    }


def designs_across(report: CodesignReport) -> tuple[Chart, ...]:
    """Every system that was scored as a line across what the space leaves open, and what of it matters."""
    scores, _, heights = _scored_rows(report)
    knobs = []
    for place, knob in enumerate(report.question.space.knobs):
        values = tuple(value_label(knob.name, knob.values[score.point[place]]) for score in scores)
        knobs.append(Coordinate(name=KNOB_LABELS[knob.name], values=values))
    score = Coordinate(name=report.metric_name, values=tuple(heights), unit=_unit(report))
    is_more_better = _is_together(report) or report.metric_name != "$/token"
    return (*parallel_coordinates(knobs, score, is_more_better=is_more_better), *importances(knobs, score))


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
        "y": [_height(report, one) for one in group.systems],
        "text": [said(_brief(one)) for one in group.systems],
        "marker": {"color": group.colour, "symbol": group.symbol, "size": group.width_px},
        "hovertemplate": f"%{{text}}<br>%{{x:.0f}} mm2, %{{y:.4~g}} {said(_unit(report))}<extra></extra>",
    }


def _brief(one: SystemAnswer) -> str:
    return f"{system_in_brief(one.system)}, {one.num_devices:,} devices"
