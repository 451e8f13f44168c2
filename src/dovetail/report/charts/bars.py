"""Bars lying on their side, one under the other: made of parts, by rank, or side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.report.charts.chart import Figure, axis, layout, said
from dovetail.report.charts.palette import filled

BAR_PX, FEW_PX, MOST_PX = 34, 110, 900  # heights: of a bar, of what is around bars, and of the whole at most
NARROW_PX, LETTER_PX = 150, 7  # widths: what a telephone leaves for bars, and of a letter or digit


def stacked(
    labels: Sequence[str],
    columns: Mapping[str, tuple[tuple[str, str], Sequence[float]]],
    title: str,
    *,
    hover: str = "%{x:.4~s}s",
    **said_of_axis: Any,
) -> Figure:
    """`columns` by name: their colour and pattern, and a number for every label. The first label is on top."""
    data = [
        {
            **_lying(labels, values, f"{said(name)}<br>%{{y}}: {hover}<extra></extra>"),
            "name": said(name),
            "marker": filled(look),
        }
        for name, (look, values) in columns.items()
    ]
    return {
        "data": data,
        "layout": layout(
            barmode="stack",
            bargap=0.3,
            height=height_px(len(labels)),
            xaxis=axis(title, rangemode="tozero", **said_of_axis),
            yaxis=_categories(),
        ),
    }


def ranked(
    labels: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    colours: Sequence[str],
    title: str,
    *,
    hover: str,
    details: Sequence[str] = (),
    starts: Sequence[float] = (),
    **said_of_axis: Any,
) -> Figure:
    """A bar for every label with its text at the end, the first on top; `details` are %{customdata} of `hover`.

    Bars begin at `starts`, or all at 0.
    """
    bars = {
        **_lying(labels, values, f"{hover}<extra></extra>"),
        **({"base": [float(start) for start in starts]} if starts else {}),
        "text": [said(text) for text in texts],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [said(detail) for detail in details],
        "marker": {"color": list(colours)},
    }
    ends = [start + value for start, value in zip(starts or [0.0] * len(values), values, strict=True)]
    xaxis = axis(title, range=_ends(ends, texts), **said_of_axis)
    height = height_px(len(labels), legend_lines=0)
    shown = layout(height=height, showlegend=False, bargap=0.35, xaxis=xaxis, yaxis=_categories())
    return {"data": [bars], "layout": shown}


def _ends(values: Sequence[float], texts: Sequence[str]) -> list[float]:
    """From where to where an axis goes, so that texts at the ends of bars have room on the narrowest page.

    A text is right of its bar, or left of one that is below 0, where the names of bars would be under it.
    """
    right = _share([text for value, text in zip(values, texts, strict=True) if value >= 0])
    left = _share([text for value, text in zip(values, texts, strict=True) if value < 0])
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) / (1 - right - left) or 0.1
    return [low - left * span, high + right * span]


def _share(texts: Sequence[str]) -> float:
    """Of the width of bars, what the longest text takes."""
    return min(0.4, LETTER_PX * max(map(len, texts)) / NARROW_PX) if texts else 0.0


def _lying(labels: Sequence[str], values: Sequence[float], hover: str) -> Figure:
    """Bars from left to right, a label each."""
    return {
        "type": "bar",
        "orientation": "h",
        "y": [said(label) for label in labels],
        "x": [float(value) for value in values],
        "hovertemplate": hover,
    }


def grouped(
    labels: Sequence[str],
    columns: Mapping[str, tuple[str, Sequence[float]]],
    title: str,
    *,
    hover: str = "%{x:.2%}",
    **said_of_axis: Any,
) -> Figure:
    """Bars side by side under every label: `columns` by name have their colour and a number for every label."""
    data = [
        {
            **_lying(labels, values, f"%{{y}}: {said(name)} {hover}<extra></extra>"),
            "name": said(name),
            "marker": {"color": colour},
        }
        for name, (colour, values) in columns.items()
    ]
    return {
        "data": data,
        "layout": layout(
            height=height_px(len(labels), legend_lines=1) + 10 * len(labels),
            barmode="group",
            bargap=0.3,
            xaxis=axis(title, **said_of_axis),
            yaxis=_categories(),
        ),
    }


def _categories() -> Figure:
    return {"type": "category", "autorange": "reversed", "automargin": True}


def height_px(num_bars: int, legend_lines: int = 2) -> int:
    return min(MOST_PX, FEW_PX + 24 * legend_lines + BAR_PX * num_bars)
