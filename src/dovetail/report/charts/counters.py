"""Shares of resources that are held, over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import series
from dovetail.report.labels import percent
from dovetail.report.table import Table
from dovetail.report.tracks import Counter

MOST_POINTS = 2000


def held_over_time(counters: Sequence[Counter]) -> Chart:
    """A stair for every counter, all of them shares."""
    means = [(counter.name, _mean(counter)) for counter in counters]
    most = max(means, key=lambda pair: pair[1])
    across = axis("since the start", tickformat="~s", ticksuffix="s", rangemode="tozero")
    up = axis("share of all there is", tickformat="~%", range=[0, 1.05])
    return Chart(
        name="held",
        title="What is held, over time",
        alt=f"Most in use is {most[0].removesuffix(' held')}: {percent(most[1])} on the mean.",
        figure={
            "data": [_stair(counter, index) for index, counter in enumerate(counters)],
            "layout": layout(height=320, xaxis=across, yaxis=up),
        },
        table=Table(
            title="What is held on the mean",
            columns=("", "share"),
            rows=tuple((name, percent(mean)) for name, mean in means),
            align="lr",
        ),
    )


def _stair(counter: Counter, index: int) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": said(counter.name),
        "x": [moment_s for moment_s, _ in counter.points[:MOST_POINTS]],
        "y": [value for _, value in counter.points[:MOST_POINTS]],
        "line": {"color": series(index)[0], "width": 2, "shape": "hv"},
        "hovertemplate": f"{said(counter.name)}: %{{y:.1%}} from %{{x:.4~s}}s<extra></extra>",
    }


def _mean(counter: Counter) -> float:
    """Over time, each value holding until the next."""
    moments = [moment_s for moment_s, _ in counter.points]
    lasted = [after - before for before, after in pairwise(moments)]
    held = sum(span * value for span, (_, value) in zip(lasted, counter.points, strict=False))
    return held / sum(lasted) if sum(lasted) > 0 else 0.0
