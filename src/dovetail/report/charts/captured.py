"""Where the work and the memory traffic of a captured model are, by kind of operator and by block."""

from __future__ import annotations

from dovetail.report.charts.bars import grouped
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, GREEN, ORANGE
from dovetail.report.labels import percent
from dovetail.report.plain import Record
from dovetail.report.table import Table

MOST_BARS = 12


def operator_shares(record: Record) -> Chart:
    """Kinds of operators with their share of all FLOP and of all bytes."""
    shown = record["operators"][:MOST_BARS]
    columns = {
        "FLOP": (BLUE, [one["flop_frac"] for one in shown]),
        "bytes": (ORANGE, [one["bytes_frac"] for one in shown]),
    }
    first = shown[0]
    return Chart(
        name="operator-shares",
        title="Operators by kind",
        alt=f"{first['kind']} is {percent(first['flop_frac'])} of the FLOP and {percent(first['bytes_frac'])} of the"
        " bytes of a step.",
        figure=grouped([one["kind"] for one in shown], columns, "share of a step", tickformat="~%", rangemode="tozero"),
        table=_table("operator", [one["kind"] for one in shown], columns),
    )


def block_shares(record: Record) -> Chart:
    """Blocks with their share of parameters, FLOP and activations, all repeats together."""
    blocks = sorted(record["blocks"], key=lambda block: -block["flop_frac"])[:MOST_BARS]
    whole_bytes = record["activation_bytes"] or 1.0
    columns = {
        "parameters": (GREEN, [block["parameters_frac"] for block in blocks]),
        "FLOP": (BLUE, [block["flop_frac"] for block in blocks]),
        "activations": (ORANGE, [block["repeat"] * block["activation_bytes"] / whole_bytes for block in blocks]),
    }
    names = [f"{block['name']} x {block['repeat']}" if block["repeat"] > 1 else block["name"] for block in blocks]
    return Chart(
        name="block-shares",
        title="Blocks",
        alt=f"{names[0]} has {percent(blocks[0]['parameters_frac'])} of the parameters and"
        f" {percent(blocks[0]['flop_frac'])} of the FLOP.",
        figure=grouped(names, columns, "share of the model", tickformat="~%", rangemode="tozero"),
        table=_table("block", names, columns),
    )


def _table(what: str, names: list[str], columns: dict[str, tuple[str, list[float]]]) -> Table:
    rows = tuple(
        (name, *(percent(values[place]) for _, values in columns.values())) for place, name in enumerate(names)
    )
    return Table(title=what, columns=(what, *columns), rows=rows, align="l" + "r" * len(columns))
