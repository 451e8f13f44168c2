"""Tracks of slices, one under the other: who runs what when."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.report.charts.bars import MOST_PX
from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import filled, series
from dovetail.report.labels import counted
from dovetail.report.table import Table
from dovetail.report.tracks import Process, Slice
from dovetail.units import format_s

MOST_SLICES = 4000  # drawn: more are too fine to see
MOST_ROWS = 200
ROW_PX = 28


def tracks_chart(processes: Sequence[Process], name: str, title: str) -> Chart:
    """A row for every track; slices of one category have one colour, and of very many the longest are drawn."""
    tracks = [(_label(process, track.name, processes), track) for process in processes for track in process.tracks]
    slices = [(label, one) for label, track in tracks for one in track.slices]
    shown = sorted(slices, key=lambda pair: pair[1].begin_s - pair[1].end_s)[:MOST_SLICES]
    categories = list(dict.fromkeys(one.category for _, one in slices))
    end_s = max((one.end_s for _, one in slices), default=0.0)
    few = "" if len(shown) == len(slices) else f", of which the {len(shown):,} longest are drawn"
    data = [
        _trace(category, index, [pair for pair in shown if pair[1].category == category])
        for index, category in enumerate(categories)
    ]
    return Chart(
        name=name,
        title=title,
        alt=f"{counted(len(slices), 'task')} on {counted(len(tracks), 'track')} over {format_s(end_s)}{few}.",
        figure={"data": [trace for trace in data if trace["x"]], "layout": _layout([label for label, _ in tracks])},
        table=_table(slices),
    )


def _layout(labels: list[str]) -> Figure:
    return layout(
        height=min(MOST_PX, 130 + ROW_PX * len(labels)),
        showlegend=True,
        barmode="overlay",
        bargap=0.15,
        xaxis=axis("since the start", tickformat="~s", ticksuffix="s", rangemode="tozero"),
        yaxis={
            "type": "category",
            "automargin": True,
            "categoryorder": "array",
            "categoryarray": [said(label) for label in reversed(labels)],
        },
    )


def _label(process: Process, track: str, processes: Sequence[Process]) -> str:
    return track if len(processes) == 1 else f"{process.name}: {track}"


def _trace(category: str, index: int, pairs: list[tuple[str, Slice]]) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": said(category or "tasks"),
        "y": [said(label) for label, _ in pairs],
        "base": [one.begin_s for _, one in pairs],
        "x": [one.end_s - one.begin_s for _, one in pairs],
        "text": [said(one.name) for _, one in pairs],
        "textposition": "none",
        "marker": {**filled(series(index)), "line": {"width": 0.5, "color": "#ffffff"}},
        "hovertemplate": "%{text}<br>from %{base:.4~s}s, %{x:.4~s}s<extra></extra>",
    }


def _table(slices: list[tuple[str, Slice]]) -> Table:
    longest = sorted(slices, key=lambda pair: pair[1].begin_s - pair[1].end_s)[:MOST_ROWS]
    rows = tuple(
        (label, one.name, format_s(one.begin_s), format_s(one.end_s), format_s(one.end_s - one.begin_s))
        for label, one in longest
    )
    left = (f"the {len(slices) - MOST_ROWS:,} shortest are left out here",) if len(slices) > MOST_ROWS else ()
    return Table(
        title="Tasks, the longest first",
        columns=("track", "task", "begins", "ends", "takes"),
        rows=rows,
        align="llrrr",
        notes=left,
    )
