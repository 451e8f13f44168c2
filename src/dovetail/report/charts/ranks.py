"""When the ranks of a trace end: what each computes, and how long it communicates without computing."""

from __future__ import annotations

from itertools import groupby

from dovetail.comm.trace.outcome import TraceOutcome
from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, VERMILLION
from dovetail.report.table import Table
from dovetail.units import format_s

MOST_BARS = 32


def ranks_ends(outcome: TraceOutcome) -> Chart:
    """A bar for ranks in a row that end alike; of very many runs the latest are shown."""
    runs = [list(run) for _, run in groupby(outcome.ranks, key=lambda one: (one.end_s, one.compute_s))]
    latest = sorted(runs, key=lambda run: -run[0].end_s)[:MOST_BARS]
    shown = sorted(latest, key=lambda run: run[0].rank)
    labels = [f"rank {run[0].rank}" if len(run) == 1 else f"ranks {run[0].rank}-{run[-1].rank}" for run in shown]
    columns = {
        "computes": ((BLUE, ""), [run[0].compute_s for run in shown]),
        "waits for communication": ((VERMILLION, ""), [run[0].exposed_s for run in shown]),
    }
    last = max(outcome.ranks, key=lambda one: one.end_s)
    few = "" if len(shown) == len(runs) else f" The {len(shown)} runs of ranks that end last are shown."
    return Chart(
        name="ranks",
        title="When ranks end",
        alt=f"Rank {last.rank} ends last, after {format_s(outcome.end_s)}, of which it computes"
        f" {format_s(last.compute_s)}.{few}",
        figure=stacked(labels, columns, "since the start", tickformat="~s", ticksuffix="s"),
        table=Table(
            title="Ranks",
            columns=("", "ends", "computes", "waits"),
            rows=tuple(
                (label, format_s(run[0].end_s), format_s(run[0].compute_s), format_s(run[0].exposed_s))
                for label, run in zip(labels, shown, strict=True)
            ),
            align="lrrr",
        ),
    )
