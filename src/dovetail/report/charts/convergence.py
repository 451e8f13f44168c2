"""How a search came to its answer: the best so far, and the bound that none can pass, by evaluations."""

from __future__ import annotations

import math

from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import BLUE, ORANGE
from dovetail.report.charts.trail import Mark, Trail, honest, thinned
from dovetail.report.labels import percent
from dovetail.report.table import Table

LEAST_SPAN_FRAC = 0.2  # of the best, what the axis shows at the least
MANY = 40  # marks of a line: beyond them they would hide it


def convergence(trail: Trail) -> Chart:
    """Two stairs that meet where the best is proven; what is between them is not ruled out yet."""
    trail = honest(trail)
    marks = thinned(trail.marks)
    return Chart(
        name="convergence",
        title="How the search came to its answer",
        alt=_sentence(trail),
        figure={
            "data": _stairs(trail, marks),
            "layout": layout(height=360, xaxis=axis(f"{trail.counted} {trail.done}"), yaxis=_upwards(trail, marks)),
        },
        table=Table(
            title="Best so far, and what none can beat",
            columns=(f"{trail.counted} {trail.done}", "best so far", "none is better than"),
            rows=tuple((f"{mark.num_done:,}", _said(trail, mark.best), _said(trail, mark.bound)) for mark in marks),
            align="rrr",
        ),
    )


def _upwards(trail: Trail, marks: tuple[Mark, ...]) -> Figure:
    """At least a fifth of the best from end to end: a search that gained little is drawn as one that did."""
    values = [value for mark in marks for value in (mark.best, mark.bound) if math.isfinite(value) and value > 0]
    low, high = min(values, default=0.0), max(values, default=1.0)
    missing = LEAST_SPAN_FRAC * high - (high - low)
    if missing <= 0:
        return axis(trail.unit)
    return axis(trail.unit, range=[low - missing / 2, high + missing / 2])


def _stairs(trail: Trail, marks: tuple[Mark, ...]) -> list[Figure]:
    best = [(mark.num_done, mark.best) for mark in marks if math.isfinite(mark.best)]
    bound = [(mark.num_done, mark.bound) for mark in marks if math.isfinite(mark.bound) and mark.bound > 0]
    limit = "at most" if trail.is_more_better else "at least"
    name = f"none can be better: {limit}"
    if len(bound) == 1 and len(marks) > 1:  # known at the end alone, and true from the start: one point is no line
        name, bound = f"{name} (known at the end)", [(mark.num_done, bound[0][1]) for mark in (marks[0], marks[-1])]
    traces = ((name, bound, ORANGE, "dash"), ("best so far", best, BLUE, "solid"))
    return [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(points) < MANY else "lines",
            "name": name,
            "x": [x for x, _ in points],
            "y": [y for _, y in points],
            "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
            "marker": {"color": colour, "size": 6},
            "hovertemplate": f"%{{x:,}} {said(trail.counted)}: %{{y:.5~g}} {said(trail.unit)}<extra>{name}</extra>",
        }
        for name, points, colour, dash in traces
        if points
    ]


def _sentence(trail: Trail) -> str:
    last = trail.marks[-1]
    message = f"With {last.num_done:,} {trail.counted} {trail.done} the best is {_said(trail, last.best)}"
    if not (math.isfinite(last.bound) and math.isfinite(last.best) and last.best and last.bound > 0):
        return f"{message}; nothing bounds the others."
    gap_frac = abs(last.bound / last.best - 1)
    if gap_frac < 1e-6:  # style: a tolerance, of two sums of the same seconds
        return f"{message}, and the bound has met it: none is better."
    return f"{message}, and none can be better by more than {percent(gap_frac, 2)}."


def _said(trail: Trail, value: float) -> str:
    return trail.words(value) if math.isfinite(value) and value > 0 else "-"
