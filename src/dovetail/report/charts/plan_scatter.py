"""Plans by what a step takes and what a device holds: which no other plan beats on both, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.accuracy.evidence import GIVEN, format_bounds, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.hardware.heterogeneous import chips_of
from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import BLUE, GREY, ORANGE, VERMILLION
from dovetail.report.labels import counted, plan_in_brief
from dovetail.report.memory import unit_of_bytes
from dovetail.report.ranked import selection_of_best
from dovetail.report.table import Table
from dovetail.search.planners.ranking import Choice
from dovetail.units import format_bytes, format_rounded_s, format_s

MOST_DOTS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoint:
    """One plan: a name for it, what it comes to, and between which bounds its step is likely to be."""

    name: str
    step_s: float
    need_bytes: float
    lower_s: float = 0.0  # both 0: no interval is known
    upper_s: float = 0.0
    is_best: bool = False
    is_given: bool = False  # the user's own

    @property
    def has_interval(self) -> bool:
        return self.upper_s > 0


def pareto_front(points: Iterable[PlanPoint]) -> tuple[PlanPoint, ...]:
    """Those that no other beats on time and memory, from the fastest to the smallest."""
    found: list[PlanPoint] = []
    for point in sorted(points, key=lambda one: (one.step_s, one.need_bytes)):
        if not found or point.need_bytes < found[-1].need_bytes:
            found.append(point)
    return tuple(found)


def plans_scatter(found: Choice, residuals: Sequence[Residual] = ()) -> tuple[Chart, ...]:
    """The plans of a search that it ranked; nothing of fewer than two."""
    question = found.question
    chosen = selection_of_best(found, residuals) if residuals else GIVEN
    points = []
    for one in found.ranking:
        plan = one.candidate.plan
        bounds = (0.0, 0.0)
        if residuals and not question.workload.is_forward_only:
            selection = chosen if plan == found.best.plan else GIVEN
            interval = interval_of(
                question.workload, question.cluster, plan, one.candidate.step_s, residuals, selection
            )
            bounds = (interval.lower_s, interval.upper_s)
        points.append(
            PlanPoint(
                name=plan_in_brief(plan), step_s=one.candidate.step_s, need_bytes=one.candidate.need_bytes,
                lower_s=bounds[0], upper_s=bounds[1], is_best=plan == found.best.plan, is_given=one.is_given,
            )
        )  # fmt: skip
    reasons = {chip.headroom_reason for chip in chips_of(question.cluster)}
    return points_scatter(points, found.best.memory.limit_bytes, kept_free_for=" or ".join(sorted(reasons)))


def points_scatter(
    points: Sequence[PlanPoint], limit_bytes: float, noun: str = "plan", kept_free_for: str = ""
) -> tuple[Chart, ...]:
    """Any plans, those on the front joined; whiskers are intervals of the step. Nothing of fewer than two.

    `kept_free_for` is why no more than `limit_bytes` is usable.
    """
    if len(points) < 2:
        return ()
    front = pareto_front(points)
    on_front = {id(one) for one in front}
    behind = [one for one in points if id(one) not in on_front][:MOST_DOTS]
    most_bytes = max(max(one.need_bytes for one in points), limit_bytes if math.isfinite(limit_bytes) else 0.0)
    scale_bytes, symbol = unit_of_bytes(most_bytes)
    data = [
        _dots(f"other {noun}s", GREY, "circle", 8, behind, scale_bytes, symbol, opacity=0.65),
        _front(front, scale_bytes, symbol),
        _dots("fastest", VERMILLION, "diamond", 15, [one for one in points if one.is_best], scale_bytes, symbol),
        _dots("yours", ORANGE, "square", 13, [one for one in points if one.is_given], scale_bytes, symbol),
    ]
    line = {
        "type": "line", "name": f"usable {kept_free_for}".rstrip() + f", {limit_bytes / scale_bytes:.1f} {symbol}",
        "showlegend": True,
        "xref": "paper", "x0": 0, "x1": 1, "y0": limit_bytes / scale_bytes, "y1": limit_bytes / scale_bytes,
        "line": {"width": 2, "dash": "dash"},
    }  # fmt: skip
    low, high = _ends(points)
    least = min(one.need_bytes for one in points) / scale_bytes
    bottom = max(0.0, least - 0.6 * (most_bytes / scale_bytes - least) - 0.05 * least)
    fastest, smallest = front[0], front[-1]
    words = f"{counted(len(points), noun)}, {len(front)} of which no other beats on both time and memory"
    if len(front) > 1:
        words += (
            f": from {format_rounded_s(fastest.step_s, 3)} with {format_bytes(fastest.need_bytes)} per device to"
            f" {format_rounded_s(smallest.step_s, 3)} with {format_bytes(smallest.need_bytes)}"
        )
    chart = Chart(
        name="plans-scatter",
        title=f"{noun.capitalize()}s by time and memory",
        alt=f"{words}.",
        figure={
            "data": [trace for trace in data if trace["x"]],
            "layout": layout(
                height=430,
                showlegend=True,
                shapes=[line],
                xaxis=axis("time of one step", tickformat="~s", ticksuffix="s", range=[low, high]),
                yaxis=axis(f"memory of the fullest device, {symbol}", range=[bottom, 1.04 * most_bytes / scale_bytes]),
            ),
        },
        table=_table(points, on_front, noun),
    )
    return (chart,)


def _ends(points: Sequence[PlanPoint]) -> tuple[float, float]:
    lows = [one.lower_s or one.step_s for one in points if one.is_best] + [one.step_s for one in points]
    highs = [one.upper_s or one.step_s for one in points if one.is_best] + [one.step_s for one in points]
    room = 0.06 * ((max(highs) - min(lows)) or max(highs))
    return max(0.0, min(lows) - room), max(highs) + room


def _dots(
    name: str,
    colour: str,
    symbol: str,
    wide_px: int,
    points: Sequence[PlanPoint],
    scale_bytes: float,
    unit: str,
    opacity: float = 1.0,
) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [one.step_s for one in points],
        "y": [one.need_bytes / scale_bytes for one in points],
        "text": [said(one.name) for one in points],
        "marker": {"color": colour, "symbol": symbol, "size": wide_px, "opacity": opacity},
        "hovertemplate": f"%{{text}}<br>%{{x:.4~s}}s, %{{y:.2f}} {unit}<extra></extra>",
        **_whiskers(points),
    }


def _front(front: Sequence[PlanPoint], scale_bytes: float, unit: str) -> Figure:
    return {
        **_dots("Pareto front", BLUE, "circle", 9, front, scale_bytes, unit),
        "mode": "lines+markers",
        "line": {"color": BLUE, "width": 2, "shape": "hv"},
    }


def _whiskers(points: Sequence[PlanPoint]) -> Figure:
    """Intervals of the step. Plans of one job have most of their error in common, so the best's stands for all."""
    if not points or not all(one.has_interval and (one.is_best or one.is_given) for one in points):
        return {}
    return {
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [one.upper_s - one.step_s for one in points],
            "arrayminus": [one.step_s - one.lower_s for one in points],
            "thickness": 1.5,
            "width": 5,
        }
    }


def _table(points: Sequence[PlanPoint], on_front: set[int], noun: str) -> Table:
    has_intervals = any(one.has_interval for one in points)
    rows = tuple(
        (
            one.name + (" (your own)" if one.is_given else ""),
            format_s(one.step_s),
            *((format_bounds(one.lower_s, one.upper_s) if one.has_interval else "-",) if has_intervals else ()),
            format_bytes(one.need_bytes),
            "yes" if id(one) in on_front else "",
        )
        for one in sorted(points, key=lambda one: one.step_s)[:200]
    )
    columns = (noun, "one step", *(("interval",) if has_intervals else ()), "fullest device", "on the front")
    return Table(title=f"{noun.capitalize()}s", columns=columns, rows=rows, align="lrrrl" if has_intervals else "lrrl")
