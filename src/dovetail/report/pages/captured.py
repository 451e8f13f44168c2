"""A captured model as a page: key figures, where its work is, and its supported parallelism."""

from __future__ import annotations

from dovetail.report.captured_tables import captured_tables
from dovetail.report.charts.captured import block_shares, operator_shares
from dovetail.report.page import Card, Page, Section
from dovetail.report.plain import Record
from dovetail.units import format_bytes, format_count, format_rate


def captured_page(record: Record, sentence: str) -> Page:
    head, blocks, sharding, operators = captured_tables(record)
    return Page(
        title=head.title,
        sentence=sentence,
        cards=(
            Card(label="Parameters", value=format_count(record["num_parameters"])),
            Card(label="Training", value=format_rate(record["training_flop"], "FLOP"), note="per sample"),
            Card(
                label="Activations",
                value=format_bytes(record["activation_bytes"]),
                note="per sample, kept for backward",
            ),
        ),
        sections=(
            Section(title="Blocks", charts=(block_shares(record),)),
            Section(title="Operators by kind", charts=(operator_shares(record),)),
            Section(title="Supported parallelism", tables=(sharding,)),
            Section(title="Every figure", tables=(head, blocks, operators), is_folded=True),
        ),
    )
