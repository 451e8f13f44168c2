"""What a little more of each resource of a device would gain the best system of a joint search."""

from __future__ import annotations

from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, PALE
from dovetail.report.labels import gain, percent
from dovetail.report.limits import NOTHING_FRAC
from dovetail.report.table import Table
from dovetail.search.codesign.sensitivity import Sensitivity


def resources_gain(found: Sensitivity) -> tuple[Chart, ...]:
    """A bar for every resource, the most useful on top; no chart where none was asked about."""
    resources = found.resources
    if not resources:
        return ()
    labels = [f"{percent(one.more / one.amount, 0)} more {one.name}" for one in resources]
    gains = [one.gain_frac for one in resources]
    words = [gain(one) for one in gains]
    colours = [BLUE if one >= NOTHING_FRAC else PALE for one in gains]
    figure = ranked(labels, gains, words, colours, "gain", hover="%{y}: %{x:+.2%}", tickformat="~%")
    table = Table(title="Gains", columns=("", "gain"), rows=tuple(zip(labels, words, strict=True)), align="lr")
    alt = f"{labels[0][:1].upper()}{labels[0][1:]} would gain most: {words[0]}."
    title = "What a little more of each resource of a device would gain"
    return (Chart(name="resources", title=title, alt=alt, figure=figure, table=table),)
