"""Where the time of a step of distributed code goes, a stacked bar for every recorded rank."""

from __future__ import annotations

from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import TIME
from dovetail.report.labels import percent, seconds
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_rounded_s

# Keys of a rank's record with their labels and colours, in the order that they are stacked in; they add up to a step.
PARTS = (
    ("compute_s", "compute", TIME["compute"]),
    ("exposed_s", "exposed communication", TIME["dp"]),
    ("host_s", "waiting for the host", TIME["host"]),
    ("idle_s", "waiting for other ranks", TIME["idle"]),
)


def time_by_rank(record: Record) -> Chart:
    """`record` is a `distributed_record`."""
    ranks, step_s = record["ranks"], record["step_s"] or 1.0
    labels = [f"rank {one['rank']}" for one in ranks]
    shown = [part for part in PARTS if any(one[part[0]] > 0 for one in ranks)]
    pace = min(ranks, key=lambda one: (one["idle_s"], one["rank"]))
    key, most, _ = max(PARTS, key=lambda part: pace[part[0]])
    title = "Time of one step, by rank"
    return Chart(
        name="time-by-rank",
        title=title,
        alt=f"Of a step of {format_rounded_s(record['step_s'], 3)}, {most} takes {percent(pace[key] / step_s)} on rank"
        f" {pace['rank']}.",
        figure=stacked(
            labels,
            {label: (colour, [one[key] for one in ranks]) for key, label, colour in shown},
            "time of one step",
            tickformat="~s",
            ticksuffix="s",
        ),
        table=Table(
            title=title,
            columns=("", *labels),
            rows=tuple(
                (label, *(f"{seconds(one[key], step_s)} ({percent(one[key] / step_s)})" for one in ranks))
                for key, label, _ in shown
            ),
            align="l" + "r" * len(ranks),
        ),
    )
