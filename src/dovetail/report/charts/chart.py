"""A chart as a value: a figure in Plotly's form, what there is to see in it in words, and its numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from dovetail.report.table import Table

Figure = dict[str, Any]


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

    def __post_init__(self) -> None:
        assert self.name.replace("-", "").isalnum(), f"a chart's name is letters and dashes; got {self.name!r}"
        assert self.alt, f"{self.name}: a chart says in words what it shows"


def said(text: str) -> str:
    """`text` for a label of a figure, of which Plotly reads some as HTML: names come from files and may hold any.

    Its lines stay lines.
    """
    return escape(text, quote=False).replace("\n", "<br>")


def layout(**said_of: Any) -> Figure:
    """What every figure has: room for labels, a legend above, and no title, which whoever shows it writes itself."""
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
    margin = {"l": 56, "r": 16, "t": 16, "b": 48}
    return {"legend": legend, "margin": margin, "hovermode": "closest", **said_of}


def axis(title: str, **said_of: Any) -> Figure:
    return {"title": {"text": said(title)}, "automargin": True, **said_of}
