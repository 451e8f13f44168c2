"""A collective on a network as a page: its time beside the bound, and how busy links are; or a sweep as curves."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.comm.one_collective import NetworkAnswer
from dovetail.report.charts.curves import curves_chart
from dovetail.report.charts.link_load import LinkLoad, link_load
from dovetail.report.figures import tables_of
from dovetail.report.labels import percent
from dovetail.report.network import network_figures, sweep_figures, sweep_panels
from dovetail.report.page import Card, Page, Section
from dovetail.units import format_bytes, format_rate, format_s


def network_page(answers: Sequence[NetworkAnswer]) -> Page:
    return _one(answers[0]) if len(answers) == 1 else _sweep(answers)


def _one(answer: NetworkAnswer) -> Page:
    head, *more = tables_of(network_figures(answer))
    loads = [LinkLoad(dimension=o.dimension, mean_frac=o.mean_frac, most_frac=o.most_frac) for o in answer.loads]
    job, reached = answer.job, percent(answer.bound_frac)
    return Page(
        title=head.title,
        sentence=f"{job.collective} of {format_bytes(job.payload_bytes)} takes {format_s(answer.time_s)}"
        f"{f', which reaches {reached} of what the ports allow' if answer.is_bounded else ''}.",
        cards=(
            Card(label="Time", value=format_s(answer.time_s), note=answer.engine),
            Card(label="Bus bandwidth", value=format_rate(answer.bus_bytes_per_s, "B/s")),
            *((Card(label="Of the bound", value=reached, note=format_s(answer.bound_s)),) if answer.is_bounded else ()),
        ),
        sections=(
            Section(title="The answer", tables=(head,)),
            *((Section(title="The links", charts=(link_load(loads),), tables=tuple(more)),) if loads else ()),
        ),
    )


def _sweep(answers: Sequence[NetworkAnswer]) -> Page:
    time, rate = sweep_panels(answers)
    [table] = tables_of(sweep_figures(answers))
    best = max(answers, key=lambda one: one.bus_bytes_per_s)
    return Page(
        title=table.title,
        sentence=f"{len(answers)} points of {best.job.collective}: bus bandwidth reaches"
        f" {format_rate(best.bus_bytes_per_s, 'B/s')} at {format_bytes(best.job.payload_bytes)}"
        f"{f', {percent(best.bound_frac)} of what the ports allow' if best.is_bounded else ''}.",
        sections=(
            Section(title="Over the sweep", charts=(curves_chart(time, "time"), curves_chart(rate, "bandwidth"))),
            Section(title="Every point", tables=(table,)),
        ),
    )
