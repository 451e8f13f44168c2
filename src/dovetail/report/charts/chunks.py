"""Chunks of a collective over time: which phase of which chunk each dimension of the network runs when."""

from __future__ import annotations

from dovetail.comm.one_collective import NetworkAnswer
from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import SERIES
from dovetail.report.labels import counted, percent
from dovetail.report.table import Table
from dovetail.units import format_rounded_s, format_s

MOST_BARS = 2000
MOST_ROWS = 200
LANE_PX = 24
ROUNDING = 1e-12  # style: a tolerance; a chunk begins as the one before it ends


def chunks_over_time(answer: NetworkAnswer) -> tuple[Chart, ...]:
    """A row for every dimension, or several where it runs chunks side by side; nothing where no events say."""
    if not answer.timeline:
        return ()
    [timeline] = answer.timeline
    found = sorted((span_s, visit) for visit, span_s in timeline.visits_s.items())
    if not found or len(found) > MOST_BARS:
        return ()
    lanes: dict[str, list[float]] = {}
    rows: list[tuple[str, int, float, float, int, str]] = []
    for (begin_s, end_s), (task, chunk, number) in found:
        phase = timeline.phases[task][chunk][number]
        ends = lanes.setdefault(phase.dimension, [])
        lane = next((place for place, until_s in enumerate(ends) if until_s <= begin_s * (1 + ROUNDING)), len(ends))
        if lane == len(ends):
            ends.append(0.0)
        ends[lane] = end_s
        rows.append((phase.dimension, lane, begin_s, end_s, chunk, phase.collective))
    labels = {
        (dimension, lane): dimension if len(lanes[dimension]) == 1 else f"{dimension}, {lane + 1}"
        for dimension in lanes
        for lane in range(len(lanes[dimension]))
    }
    kinds = list(dict.fromkeys(row[5] for row in rows))
    busy = {name: sum(row[3] - row[2] for row in rows if row[0] == name) / len(lanes[name]) for name in lanes}
    busiest = max(busy, key=lambda name: busy[name])
    end_s = max(row[3] for row in rows)
    chart = Chart(
        name="chunks",
        title="Chunks over time",
        alt=f"{counted(answer.job.num_chunks, 'chunk')}; {busiest} runs something {percent(busy[busiest] / end_s)} of"
        f" {format_rounded_s(end_s, 3)}.",
        figure={
            "data": [
                _bars(kind, index, [row for row in rows if row[5] == kind], labels) for index, kind in enumerate(kinds)
            ],
            "layout": layout(
                height=110 + LANE_PX * len(labels) + 24,
                showlegend=True,
                barmode="overlay",
                bargap=0.18,
                xaxis=axis("since the collective began", tickformat="~s", ticksuffix="s", range=[0.0, end_s]),
                yaxis={
                    "type": "category",
                    "automargin": True,
                    "categoryorder": "array",
                    "categoryarray": [said(label) for label in reversed(labels.values())],
                },
            ),
        },
        table=Table(
            title="Phases of chunks",
            columns=("chunk", "phase", "dimension", "begins", "ends"),
            rows=tuple((str(r[4]), r[5], r[0], format_s(r[2]), format_s(r[3])) for r in rows[:MOST_ROWS]),
            align="rllrr",
            notes=(f"{len(rows) - MOST_ROWS:,} more are left out here",) if len(rows) > MOST_ROWS else (),
        ),
    )
    return (chart,)


def _bars(
    kind: str, index: int, rows: list[tuple[str, int, float, float, int, str]], labels: dict[tuple[str, int], str]
) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": said(kind),
        "y": [said(labels[row[0], row[1]]) for row in rows],
        "base": [row[2] for row in rows],
        "x": [row[3] - row[2] for row in rows],
        "text": [str(row[4]) for row in rows],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "insidetextfont": {"size": 10},
        "textangle": 0,
        "marker": {"color": SERIES[index % len(SERIES)], "line": {"width": 0.5, "color": "#ffffff"}},
        "hovertemplate": f"{said(kind)} of chunk %{{text}} in %{{y}}<br>from %{{base:.4~s}}s, %{{x:.4~s}}s"
        "<extra></extra>",
    }
