"""How long the network is in use in a step, by axis of the plan: what is waited for, and what compute hides."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.evaluate import Outcome
from dovetail.hardware.topology import Group
from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import GREEN, VERMILLION
from dovetail.report.labels import AXIS_LABELS, percent
from dovetail.report.table import Table
from dovetail.step.work import COMM_AXES, Comm
from dovetail.units import format_s

_GROUPS = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}  # fields of Placement


def network_use(outcome: Outcome) -> tuple[Chart, ...]:
    """A bar for every axis that sends anything, as shares of the step; no chart where none does."""
    step_s, every = outcome.step.step_s, zip(COMM_AXES, outcome.step.comm, strict=True)
    used = {axis: comm for axis, comm in every if comm.exposed_s > 0 or comm.hidden_s > 0}
    if not used:
        return ()
    labels = [f"{AXIS_LABELS[axis]}\n{_where(outcome, axis)}" for axis in used]
    columns = {
        "waited for": ((VERMILLION, ""), [comm.exposed_s / step_s for comm in used.values()]),
        "hidden behind compute": ((GREEN, "/"), [comm.hidden_s / step_s for comm in used.values()]),
    }
    busiest = max(used, key=lambda axis: used[axis].exposed_s + used[axis].hidden_s)
    most = used[busiest]
    chart = Chart(
        name="network-use",
        title="How long the network is in use, by axis",
        alt=f"Most in use is the network under {AXIS_LABELS[busiest]}:"
        f" {percent((most.exposed_s + most.hidden_s) / step_s)} of the step, and"
        f" {percent(most.exposed_s / step_s)} of the step waits for it.",
        figure=stacked(labels, columns, "share of the step", hover="%{x:.2%}", tickformat="~%"),
        table=_table(outcome, used),
    )
    return (chart,)


def _table(outcome: Outcome, used: Mapping[str, Comm]) -> Table:
    return Table(
        title="Communication of a step",
        columns=("", "network", "waited for", "hidden", "in use"),
        rows=tuple(
            (
                AXIS_LABELS[axis],
                _where(outcome, axis),
                format_s(comm.exposed_s),
                format_s(comm.hidden_s),
                percent((comm.exposed_s + comm.hidden_s) / outcome.step.step_s),
            )
            for axis, comm in used.items()
        ),
        align="llrrr",
    )


def _where(outcome: Outcome, axis: str) -> str:
    """The dimensions of the network that the ranks of `axis` talk over."""
    groups: list[Group] = [getattr(place, _GROUPS[axis]) for place in outcome.placements]
    names = dict.fromkeys(span.dimension.name for group in groups for span in group if span.num_ranks > 1)
    return ", ".join(names) or "between parts"
