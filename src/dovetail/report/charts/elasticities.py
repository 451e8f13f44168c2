"""What a tenth more of each resource would gain, the largest on top."""

from __future__ import annotations

from dovetail.evaluate import PERTURBATION_FRAC, Outcome
from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, PALE
from dovetail.report.labels import gain, percent
from dovetail.report.limits import NOTHING_FRAC, limited_by
from dovetail.report.table import Table


def elasticities(outcome: Outcome) -> Chart:
    """A bar for every resource; what gains nothing is there too, so that one sees that it was asked."""
    found, more = outcome.elasticities, percent(PERTURBATION_FRAC, 0)
    figure = ranked(
        [one.resource for one in found],
        [one.gain_frac for one in found],
        [gain(one.gain_frac) for one in found],
        [BLUE if one.gain_frac >= NOTHING_FRAC else PALE for one in found],
        "gain in throughput",
        hover=f"{more} more %{{y}}: %{{x:+.2%}} throughput",
        tickformat="~%",
    )
    return Chart(
        name="elasticities",
        title=f"What {more} more of each resource buys",
        alt=f"Limited by {limited_by(outcome)}.",
        figure=figure,
        table=Table(
            title="Gain in throughput",
            columns=(f"with {more} more", "throughput"),
            rows=tuple((one.resource, gain(one.gain_frac)) for one in found),
            align="lr",
        ),
    )
