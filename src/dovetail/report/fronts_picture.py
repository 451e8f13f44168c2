"""A Pareto front as a picture: the first axis over each other one, of systems that no other beats on these two."""

from __future__ import annotations

from dovetail.report.curves import Curve, Panel, curves_svg
from dovetail.report.fronts import FIELDS, UNITS, FrontReport, sentence
from dovetail.report.labels import number


def front_svg(report: FrontReport) -> str:
    """A panel for every axis but the first."""
    first, *others = report.found.axes
    return curves_svg(sentence(report), [_panel(report, first, other) for other in others])


def _panel(report: FrontReport, first: str, other: str) -> Panel:
    points = steps([(report.on(other, one), report.on(first, one)) for one in report.found.systems], report, first)
    unit = UNITS[other] if other in UNITS else report.unit(other)
    return Panel(
        title=f"{first} by {other}",
        x_name=f"{other}, {unit}",
        y_name=f"{first}, {report.unit(first)}",
        x_label=number,
        y_words=number,
        curves=(Curve(name=f"systems that no other beats on {first} and the other axis", points=points),),
        is_y_log=False,
    )


def steps(places: list[tuple[float, float]], report: FrontReport, first: str) -> tuple[tuple[float, float], ...]:
    """Along x, those whose y is better than that of all before."""
    is_more_better = first not in FIELDS and report.is_more_better
    sign = 1.0 if is_more_better else -1.0
    found: list[tuple[float, float]] = []
    for x, y in sorted(places, key=lambda place: (place[0], -sign * place[1])):
        if not found or sign * y > sign * found[-1][1]:
            found.append((x, y))
    return tuple(found)
