"""What running a trace comes to as a page: when ranks end, what decided it, and how busy links were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail.comm.trace.outcome import TraceOutcome
from dovetail.report.charts.link_load import LinkLoad, link_load
from dovetail.report.charts.ranks import ranks_ends
from dovetail.report.charts.tracks import tracks_chart
from dovetail.report.labels import percent
from dovetail.report.page import Card, Page, Section
from dovetail.report.trace import trace_links, trace_tables
from dovetail.report.tracks import Process, Slice, Track
from dovetail.units import format_s


def trace_page(outcome: TraceOutcome) -> Page:
    head, *more = trace_tables(outcome)
    last = max(outcome.ranks, key=lambda one: one.end_s)
    share = percent(last.exposed_s / outcome.end_s) if outcome.end_s else percent(0.0)
    loads = dimension_loads(trace_links(outcome))
    return Page(
        title=head.title,
        sentence=f"The last of {len(outcome.ranks):,} ranks ends after {format_s(outcome.end_s)}; {share} of that it"
        " waits for communication.",
        cards=(
            Card(label="Ends", value=format_s(outcome.end_s), note=f"rank {last.rank} is last"),
            Card(label="Computes", value=format_s(last.compute_s), note="on that rank"),
            Card(label="Waits", value=share, note="of its time"),
            Card(label="Nodes", value=f"{outcome.num_nodes:,}", note=f"by {outcome.engine}"),
        ),
        sections=(
            Section(title="When ranks end", charts=(ranks_ends(outcome),), tables=(head,)),
            *((Section(title="The critical path", charts=_path(outcome), tables=tuple(more)),) if more else ()),
            *((Section(title="The links", charts=(link_load(loads),)),) if loads else ()),
        ),
    )


def _path(outcome: TraceOutcome) -> tuple[Any, ...]:
    """What decided the end, task after task, in one row."""
    slices = tuple(
        Slice(name=one.task, begin_s=one.begin_s, end_s=one.end_s, category="critical") for one in outcome.critical
    )
    process = Process(number=1, name="path", tracks=(Track(name="critical path", slices=slices),))
    return (tracks_chart([process], "critical-path", "What decided the end"),)


def dimension_loads(links: Sequence[dict[str, Any]]) -> list[LinkLoad]:
    """Of links as `report.links.link_records` has them."""
    by_dimension: dict[str, list[float]] = {}
    for link in links:
        by_dimension.setdefault(link["dimension"], []).append(link["busy_frac"])
    return [
        LinkLoad(dimension=name, mean_frac=sum(busy) / len(busy), most_frac=max(busy))
        for name, busy in by_dimension.items()
    ]
