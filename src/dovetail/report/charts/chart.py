"""A chart as a value: a figure in Plotly's form, what there is to see in it in words, and its numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from dovetail.report.table import Table

Figure = dict[str, Any]
DECADE, MOST_DECADES = 10.0, 4
HIGH_PX, LINE_PX = 420, 19  # heights: of a figure that says none, and of a line of a legend
WIDE_PX = 880  # of a picture that stands alone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """One picture. `name` is unique on a page and made of letters and dashes; `alt` says in a sentence what it shows.

    `figure` is `{"data": [...], "layout": {...}}` of plain JSON: lists, words and finite numbers. It has no colours of
    the paper; `themes.themed` gives it those. `table` has the numbers that are drawn.
    """

    name: str
    title: str
    alt: str
    figure: Figure
    table: Table

    def _repr_svg_(self) -> str:
        """What a notebook shows, in light and dark."""
        from dovetail.report.charts.adaptive import adaptive_svg

        return adaptive_svg(self)

    def __post_init__(self) -> None:
        assert self.name.replace("-", "").isalnum(), f"a chart's name is letters and dashes; got {self.name!r}"
        assert self.alt, f"{self.name}: a chart says in words what it shows"

    def to_svg(self, mode: Literal["light", "dark"] = "light", width_px: float = WIDE_PX) -> str:
        """The chart as a picture of its own, with its title and legend. No browser draws it, and nothing is fetched."""
        from dovetail.report.charts.svg import figure_svg  # which takes its colours from modules that import this one

        return figure_svg(self.figure, name=self.name, title=self.title, alt=self.alt, mode=mode, width_px=width_px)


def said(text: str) -> str:
    """`text` for a label of a figure, of which Plotly reads some as HTML: names come from files and may hold any.

    Its lines stay lines.
    """
    return escape(text, quote=False).replace("\n", "<br>")


WIDE = {"is_wide": True}  # the `meta` of a figure that a telephone does not shrink but moves sideways


def layout(**said_of: Any) -> Figure:
    """What every figure has: room for labels, a legend above, and no title, which whoever shows it writes itself."""
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
    legend |= {"maxheight": 1}  # of the figure: without it a legend beyond half of it gets a scroll bar
    margin = {"l": 56, "r": 16, "t": 16, "b": 48}
    return {"legend": legend, "margin": margin, "hovermode": "closest", **said_of}


def box_style(figure: Figure) -> str:
    """For the style of what a figure is drawn in: how high it is, and how much more a legend of one column takes.

    That is what a legend becomes on a narrow page, where `height: calc(var(--high) + var(--legend))` has room for it.
    """
    shown = figure["layout"]
    shapes = [shape for shape in shown.get("shapes", ()) if shape.get("showlegend")]
    traces = [trace for trace in figure["data"] if trace.get("name") and trace.get("showlegend", True)]
    num_lines = len(traces) + len(shapes) if shown.get("showlegend", True) else 0
    legend_px = LINE_PX * num_lines if num_lines > 1 else 0
    return f"--high:{int(shown.get('height', HIGH_PX))}px;--legend:{legend_px}px"


def spread_axis(title: str, values: Sequence[float], **said_of: Any) -> Figure:
    """Logarithmic where `values` are decades apart; within one, marks at 1, 2 and 5 may miss what is drawn."""
    is_wide = min(values) > 0 and max(values) >= DECADE * min(values)
    return axis(title, **({"type": "log", "dtick": "D2"} if is_wide else {}), **said_of)


def log_marks(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic axis that shows `low` to `high`: decades, and 2 and 5 of them where they are few.

    One more on either side is there too: what is beyond the axis is not shown.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= MOST_DECADES else (1,)
    return [float(f"{part}e{decade}") for decade in range(first, last + 1) for part in parts]


def axis(title: str, **said_of: Any) -> Figure:
    return {"title": {"text": said(title)}, "automargin": True, **said_of}
