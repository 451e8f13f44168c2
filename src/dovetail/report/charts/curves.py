"""Curves over one axis, as `report.curves` has them, in Plotly's form."""

from __future__ import annotations

from dovetail.report.charts.chart import Chart, Figure, axis, layout, log_marks, said
from dovetail.report.charts.palette import SERIES
from dovetail.report.curves import Curve, Panel
from dovetail.report.table import Table

MOST_MARKS = 8
MOST_NAMED = 4  # curves whose ends are told in words


def curves_chart(panel: Panel, name: str) -> Chart:
    """x logarithmic, and y where the panel has it so; curves of one name have one colour."""
    names = list(dict.fromkeys(curve.name for curve in panel.curves))
    drawn = [curve for curve in panel.curves if curve.points]
    data = [trace for curve in drawn for trace in (*_band(curve, names), _line(panel, curve, names))]
    last_x = max(x for curve in drawn for x, _ in curve.points)
    solid = [curve for curve in drawn if not curve.is_dashed]
    ends = "; ".join(f"{curve.name}: {panel.y_words(curve.points[-1][1])}" for curve in solid[:MOST_NAMED])
    return Chart(
        name=name,
        title=panel.title[:1].upper() + panel.title[1:],
        alt=f"{panel.y_name[:1].upper()}{panel.y_name[1:]} over {panel.x_name}. At {panel.x_label(last_x)}, {ends}.",
        figure={"data": data, "layout": _layout(panel, drawn)},
        table=Table(
            title=panel.title,
            columns=("", panel.x_name, panel.y_name),
            rows=tuple(
                (curve.name + (f" ({panel.dashed})" if curve.is_dashed else ""), panel.x_label(x), panel.y_words(y))
                for curve in drawn
                for x, y in curve.points
            ),
            align="lrr",
        ),
    )


def _layout(panel: Panel, curves: list[Curve]) -> Figure:
    xs = sorted({x for curve in curves for x, _ in curve.points})
    marks = xs[:: max(1, -(-len(xs) // MOST_MARKS))]
    words = [said(panel.x_label(mark)) for mark in marks]
    return layout(
        height=400,
        showlegend=True,
        xaxis=axis(panel.x_name, type="log", tickvals=marks, ticktext=words),
        yaxis=_upwards(panel, curves),
    )


def _upwards(panel: Panel, curves: list[Curve]) -> Figure:
    """Marks have the unit, with its prefix: 50ms, 2GB/s. On a logarithmic axis Plotly gives it to decades alone, so
    marks are written out there.
    """
    values = [y for curve in curves for _, y in curve.points]
    if not panel.is_y_log:
        return axis(panel.y_name, rangemode="tozero", tickformat="~s", ticksuffix=said(panel.y_unit))
    marks = log_marks(min(values), max(values))
    return axis(panel.y_name, type="log", tickvals=marks, ticktext=[said(panel.y_words(mark)) for mark in marks])


def _line(panel: Panel, curve: Curve, names: list[str]) -> Figure:
    colour = SERIES[names.index(curve.name) % len(SERIES)]
    return {
        "type": "scatter",
        "mode": "lines" if curve.is_dashed else "lines+markers",
        "name": said(curve.name),
        "legendgroup": said(curve.name),
        "showlegend": not curve.is_dashed,
        "x": [x for x, _ in curve.points],
        "y": [y for _, y in curve.points],
        "text": [said(f"{panel.x_label(x)}: {panel.y_words(y)}") for x, y in curve.points],
        "line": {"color": colour, "width": 2, "dash": "dash" if curve.is_dashed else "solid"},
        "marker": {"color": colour, "size": 6},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _band(curve: Curve, names: list[str]) -> list[Figure]:
    if not curve.band:
        return []
    colour = SERIES[names.index(curve.name) % len(SERIES)]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [x for x, *_ in curve.band] + [x for x, *_ in reversed(curve.band)],
            "y": [low for _, low, _ in curve.band] + [high for *_, high in reversed(curve.band)],
            "fill": "toself",
            "opacity": 0.25,
            "line": {"color": colour, "width": 0},
            "legendgroup": said(curve.name),
            "showlegend": False,
            "hoverinfo": "skip",
        }
    ]
