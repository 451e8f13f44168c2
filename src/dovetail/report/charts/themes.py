"""Light and dark: what a figure takes of the page it stands on."""

from __future__ import annotations

from typing import Any, Literal

from dovetail.report.charts.chart import Figure
from dovetail.report.charts.palette import SERIES

Mode = Literal["light", "dark"]

# Ink, dim ink, lines and paper. Text on paper has a contrast of 7 and more, dim text 4.5 and more (WCAG 2.2, 1.4.3).
INKS = {
    "light": {"ink": "#1c2126", "dim": "#535c66", "line": "#d9dee3", "paper": "#ffffff"},
    "dark": {"ink": "#e8eaed", "dim": "#a9b1ba", "line": "#3a4149", "paper": "#171a1f"},
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


def themed(figure: Figure, mode: Mode) -> Figure:
    """`figure` with the colours of paper, ink and lines of `mode`; what it says itself stays."""
    return {**figure, "layout": {**figure["layout"], "template": template(mode)}}


def template(mode: Mode) -> dict[str, Any]:
    """A Plotly template: what holds where a figure says nothing else."""
    inks = INKS[mode]
    line = {"gridcolor": inks["line"], "zerolinecolor": inks["line"], "linecolor": inks["dim"]}
    gap = {"ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)"}  # between labels and what is drawn
    axis = {**line, **gap, "title": {"standoff": 8}, "tickfont": {"color": inks["dim"]}}
    label = {"bgcolor": inks["paper"], "bordercolor": inks["dim"], "font": {"color": inks["ink"], "family": FONT}}
    return {
        "layout": {
            "paper_bgcolor": inks["paper"],
            "plot_bgcolor": inks["paper"],
            "font": {"family": FONT, "size": 13, "color": inks["ink"]},
            "colorway": list(SERIES),
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {**label, "align": "left"},
            "legend": {"font": {"color": inks["ink"]}, "bgcolor": "rgba(0,0,0,0)"},
            "annotationdefaults": {"font": {"color": inks["ink"]}, "arrowcolor": inks["dim"]},
            "shapedefaults": {"line": {"color": inks["ink"]}},
        }
    }
