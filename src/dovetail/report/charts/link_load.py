"""How busy the links of a network were, by dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.report.charts.bars import grouped
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, ORANGE
from dovetail.report.labels import percent
from dovetail.report.table import Table


SAME_FRAC = 0.005  # style: a tolerance; a mean and a maximum that are one number to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """Links of one dimension: how busy they were on the mean, and the busiest."""

    dimension: str
    mean_frac: float
    most_frac: float


def link_load(loads: Sequence[LinkLoad]) -> Chart:
    """Two bars for every dimension of the network."""
    columns = {"mean of its links": (BLUE, [load.mean_frac for load in loads])}
    if any(load.most_frac - load.mean_frac > SAME_FRAC for load in loads):  # else both bars were one twice
        columns["busiest link"] = (ORANGE, [load.most_frac for load in loads])
    names = [load.dimension for load in loads]
    most = max(loads, key=lambda load: load.most_frac)
    return Chart(
        name="link-load",
        title="How busy links were",
        alt=f"The busiest link is of {most.dimension}: it carries something {percent(most.most_frac)} of the time.",
        figure=grouped(names, columns, "share of the time", tickformat="~%", range=[0, 1.02]),
        table=Table(
            title="How busy links were",
            columns=("dimension", "on the mean", "busiest"),
            rows=tuple((load.dimension, percent(load.mean_frac), percent(load.most_frac)) for load in loads),
            align="lrr",
        ),
    )
