"""What running a trace comes to, as plain data and as tables."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import Any

from dovetail.comm.trace.outcome import RankEnd, TraceOutcome
from dovetail.report.labels import percent
from dovetail.report.links import link_records
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_s

MAX_ROWS = 16
DIGITS = 3
MAX_NAME = 36


def trace_record(outcome: TraceOutcome) -> Record:
    return {
        "engine": outcome.engine,
        "end_s": outcome.end_s,
        "num_ranks": len(outcome.ranks),
        "num_nodes": outcome.num_nodes,
        "ranks": [
            {"rank": one.rank, "end_s": one.end_s, "compute_s": one.compute_s, "exposed_s": one.exposed_s}
            for one in outcome.ranks
        ],
        "critical_path": [{"task": one.task, "start_s": one.begin_s, "end_s": one.end_s} for one in outcome.critical],
        "links": trace_links(outcome),
        "notes": list(outcome.notes),
    }


def trace_links(outcome: TraceOutcome, devices: Collection[int] = ()) -> list[dict[str, Any]]:
    """What each link did, those of `devices` where some are named; nothing where the engine does not follow links."""
    pairs = zip(outcome.network, outcome.timeline, strict=True)
    return [
        record
        for network, timeline in pairs
        for record in link_records(network.graph, timeline, outcome.end_s, devices)
    ]


def trace_tables(outcome: TraceOutcome) -> tuple[Table, ...]:
    """Ranks that end alike share a row; of a long critical path the longest tasks are shown."""
    runs = [list(run) for _, run in groupby(outcome.ranks, key=lambda one: (one.end_s, one.compute_s))]
    rows = [_row(run) for run in runs[:MAX_ROWS]]
    left = len(runs) - len(rows)
    notes = ((f"and {left:,} rows more, see --json",) if left else ()) + outcome.notes
    title = (
        f"{len(outcome.ranks):,} ranks, {outcome.num_nodes:,} nodes, by {outcome.engine}: "
        f"{format_s(outcome.end_s, DIGITS)}"
    )
    tables = [
        Table(
            title=title,
            columns=("rank", "ends", "computes", "exposed", ""),
            rows=tuple(rows),
            align="lrrrr",
            notes=notes,
        )
    ]
    if outcome.critical:
        tables.append(_critical(outcome))
    return tuple(tables)


def _row(run: list[RankEnd]) -> tuple[str, ...]:
    one = run[0]
    ranks = str(one.rank) if len(run) == 1 else f"{one.rank}-{run[-1].rank}"
    share = percent(one.exposed_s / one.end_s) if one.end_s else ""
    return (
        ranks,
        format_s(one.end_s, DIGITS),
        format_s(one.compute_s, DIGITS),
        format_s(one.exposed_s, DIGITS),
        share,
    )


def _critical(outcome: TraceOutcome) -> Table:
    longest = sorted(outcome.critical, key=lambda one: one.begin_s - one.end_s)[:MAX_ROWS]
    shown = sorted(longest, key=lambda one: (one.begin_s, one.end_s))
    rows = tuple(
        (
            _short(one.task),
            format_s(one.begin_s, DIGITS),
            format_s(one.end_s, DIGITS),
            format_s(one.end_s - one.begin_s, DIGITS),
        )
        for one in shown
    )
    left = len(outcome.critical) - len(shown)
    notes = (f"and {left:,} shorter ones, see --json",) if left else ()
    return Table(
        title=f"critical path: {len(outcome.critical):,} tasks",
        columns=("task", "begins", "ends", "takes"),
        rows=rows,
        align="lrrr",
        notes=notes,
    )


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."
