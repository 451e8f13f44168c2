"""A Pareto front: the first axis over each other one, every system of it a dot."""

from __future__ import annotations

from dovetail.report.charts.chart import Chart, Figure, axis, layout, said, spread_axis
from dovetail.report.charts.palette import BLUE, GREY
from dovetail.report.codesigned import system_in_brief
from dovetail.report.fronts import AXIS_WORDS, FIELDS, FrontReport
from dovetail.report.fronts_picture import steps
from dovetail.report.labels import number
from dovetail.report.table import Table
from dovetail.search.codesign.pareto import FrontSystem

MOST_DOTS = 2000  # more are drawn on top of each other, and each takes some 150 bytes of the page
MOST_ROWS = 200
SIGNIFICANT = 6  # digits of a dot's place


def front_charts(report: FrontReport) -> tuple[Chart, ...]:
    """A chart for every axis but the first."""
    first, *others = report.found.axes
    return tuple(_chart(report, first, other, is_first=index == 0) for index, other in enumerate(others))


def _chart(report: FrontReport, first: str, other: str, *, is_first: bool) -> Chart:
    systems = report.found.systems
    shown = _spread(systems)
    stairs = steps([(report.on(other, one), report.on(first, one)) for one in systems], report, first)
    y_unit, x_unit = report.unit(first), report.unit(other)
    few = "" if len(shown) == len(systems) else f" ({len(shown):,} drawn)"
    low, high = min(stairs), max(stairs)
    up = axis(
        f"{AXIS_WORDS.get(first, first)}, {y_unit}",
        tickformat="~s",
        rangemode="tozero" if first not in FIELDS else "normal",
    )
    across = spread_axis(
        f"{AXIS_WORDS.get(other, other)}, {x_unit}", [report.on(other, one) for one in systems], tickformat="~s"
    )
    return Chart(
        name=f"front-{_name(other)}",
        title=f"{first.capitalize()} by {AXIS_WORDS.get(other, other)}",
        alt=f"{len(systems):,} systems{few}: from {number(low[1])} {y_unit} at {number(low[0])} {x_unit} to"
        f" {number(high[1])} {y_unit} at {number(high[0])} {x_unit}.",
        figure={
            "data": [_dots(report, first, other, shown), _line(report, first, other, stairs)],
            "layout": layout(height=420, xaxis=across, yaxis=up),
        },
        table=_table(report) if is_first else _stairs(first, other, (y_unit, x_unit), stairs),
    )


def _dots(report: FrontReport, first: str, other: str, shown: list[FrontSystem]) -> Figure:
    units = f"%{{x:.4~s}} {said(report.unit(other))}, %{{y:.4~s}} {said(report.unit(first))}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "on the front by all axes",
        "x": [_rounded(report.on(other, one)) for one in shown],
        "y": [_rounded(report.on(first, one)) for one in shown],
        "text": [said(_brief(report, one)) for one in shown],
        "marker": {"color": GREY, "size": 5, "opacity": 0.55},
        "hovertemplate": f"%{{text}}<br>{units}<extra></extra>",
    }


def _line(report: FrontReport, first: str, other: str, stairs: tuple[tuple[float, float], ...]) -> Figure:
    units = f"%{{x:.4~s}} {said(report.unit(other))}, %{{y:.4~s}} {said(report.unit(first))}"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"best by {said(first)} and {said(other)} alone",
        "x": [_rounded(x) for x, _ in stairs],
        "y": [_rounded(y) for _, y in stairs],
        "line": {"color": BLUE, "width": 2, "shape": "hv"},
        "marker": {"color": BLUE, "size": 5},
        "hovertemplate": f"{units}<extra></extra>",
    }


def _name(axis_name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in axis_name).strip("-")


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT}g}")


def _spread(systems: tuple[FrontSystem, ...]) -> list[FrontSystem]:
    if len(systems) <= MOST_DOTS:
        return list(systems)
    places = sorted({round(place * (len(systems) - 1) / (MOST_DOTS - 1)) for place in range(MOST_DOTS)})
    return [systems[place] for place in places]


def _brief(report: FrontReport, one: FrontSystem) -> str:
    system = report.system(one)
    return f"{system_in_brief(system)}, {system['num_devices']:,.12g} devices"


def _table(report: FrontReport) -> Table:
    axes, systems = report.found.axes, report.found.systems
    every = max(1, -(-len(systems) // MOST_ROWS))
    rows = tuple((_brief(report, one), *(number(report.on(name, one)) for name in axes)) for one in systems[::every])
    left = () if every == 1 else (f"every {every}th of {len(systems):,} systems; --csv writes all",)
    return Table(
        title="Systems of the front",
        columns=("system", *(f"{name}, {report.unit(name)}" for name in axes)),
        rows=rows,
        align="l" + "r" * len(axes),
        notes=left,
    )


def _stairs(first: str, other: str, units: tuple[str, str], stairs: tuple[tuple[float, float], ...]) -> Table:
    return Table(
        title=f"The best by {first} and {other} alone",
        columns=(f"{other}, {units[1]}", f"{first}, {units[0]}"),
        rows=tuple((number(x), number(y)) for x, y in stairs[:: max(1, -(-len(stairs) // MOST_ROWS))]),
        align="rr",
    )
