"""A collective on a network as a page: its time beside the bound, and how busy links are; or a sweep as curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.comm.one_collective import NetworkAnswer
from dovetail.hardware.topology import Dimension
from dovetail.report.charts.chunks import chunks_over_time
from dovetail.report.charts.curves import curves_chart
from dovetail.report.charts.link_load import LinkLoad, link_load
from dovetail.report.charts.topology import collective_topology
from dovetail.report.figures import tables_of
from dovetail.report.labels import percent
from dovetail.report.network import network_figures, sweep_figures, sweep_panels
from dovetail.report.page import Card, Page, Section
from dovetail.units import format_bytes, format_rate, format_s

SAME_FRAC = 0.005  # style: a tolerance; a mean and a maximum that are one number to look at


def network_page(answers: Sequence[NetworkAnswer]) -> Page:
    return _one(answers[0]) if len(answers) == 1 else _sweep(answers)


def _one(answer: NetworkAnswer) -> Page:
    head, *more = tables_of(network_figures(answer))
    loads = [LinkLoad(dimension=o.dimension, mean_frac=o.mean_frac, most_frac=o.most_frac) for o in answer.loads]
    job, reached = answer.job, percent(answer.bound_frac)
    charts = (
        *collective_topology(answer),
        *chunks_over_time(answer),
        *((link_load(loads),) if _is_telling(loads) else ()),
    )
    return Page(
        title=head.title,
        sentence=f"{job.collective} of {format_bytes(job.payload_bytes)} takes {format_s(answer.time_s)}"
        f"{f', which reaches {reached} of what the ports allow' if answer.is_bounded else ''}.",
        cards=(
            Card(label="Time", value=format_s(answer.time_s), note=answer.engine),
            Card(label="Bus bandwidth", value=format_rate(answer.bus_bytes_per_s, "B/s")),
            *((Card(label="Of the bound", value=reached, note=format_s(answer.bound_s)),) if answer.is_bounded else ()),
        ),
        asked=tuple(_asked(answer)),
        sections=(
            *((Section(title="The network", charts=charts),) if charts else ()),
            Section(title="Every figure", tables=(head, *more), is_folded=bool(charts)),
        ),
    )


def _asked(answer: NetworkAnswer) -> Iterator[tuple[str, str]]:
    """The collective, the network it runs on, and how it was timed."""
    job = answer.job
    chunks = f" in {job.num_chunks:,} chunks" if job.num_chunks > 1 else ""
    yield "Collective", f"{job.collective} of {format_bytes(job.payload_bytes)} per rank{chunks}"
    groups = f", {answer.num_groups:,} groups at once" if answer.num_groups > 1 else ""
    yield "Ranks", f"{answer.num_ranks:,} of {job.network.graph.num_devices:,} devices{groups}"
    parts = [
        f"{one.name}: {one.kind} of {one.num_devices:,} at {format_rate(one.link.bandwidth_bytes_per_s, 'B/s')} per device"
        for one in job.network.parts
        if isinstance(one, Dimension)
    ]
    yield "Network", "; ".join(parts) or job.network.name
    if answer.algorithm:
        yield "Library", f"{answer.algorithm}, {answer.protocol}"


def _is_telling(loads: Sequence[LinkLoad]) -> bool:
    """Whether bars of links say more than one number does."""
    return len(loads) > 1 or any(abs(one.most_frac - one.mean_frac) > SAME_FRAC for one in loads)


def _sweep(answers: Sequence[NetworkAnswer]) -> Page:
    time, rate = sweep_panels(answers)
    [table] = tables_of(sweep_figures(answers))
    best = max(answers, key=lambda one: one.bus_bytes_per_s)
    return Page(
        title=table.title,
        sentence=f"{len(answers)} points of {best.job.collective}: bus bandwidth reaches"
        f" {format_rate(best.bus_bytes_per_s, 'B/s')} at {format_bytes(best.job.payload_bytes)}"
        f"{f', {percent(best.bound_frac)} of what the ports allow' if best.is_bounded else ''}.",
        asked=tuple(_asked(best))[2:],
        sections=(
            Section(title="Over the sweep", charts=(curves_chart(time, "time"), curves_chart(rate, "bandwidth"))),
            Section(title="Every point", tables=(table,), is_folded=True),
        ),
    )
