"""A comparison with measurements as a page: how far off, set by set and row by row, against the bars."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.accuracy.validation import Validation
from dovetail.report.accuracy import accuracy_tables, accuracy_verdict
from dovetail.report.charts.measured import predicted_measured
from dovetail.report.charts.set_errors import errors_by_set
from dovetail.report.labels import counted, percent
from dovetail.report.page import Card, Page, Section
from dovetail.report.plain import Record


def accuracy_page(validation: Validation, record: Record, left_out: Sequence[str] = ()) -> Page:
    """`record` is of `validation`, and may hold sets of earlier runs too, of which rows are not known.

    `left_out` are sets that ship and nobody asked for.
    """
    scores = [one["scores"][0] for one in record["sets"] if one["scores"]]
    num_rows = sum(score["num_rows"] for score in scores)
    mean_frac = sum(score["mape_frac"] * score["num_rows"] for score in scores) / num_rows if num_rows else 0.0
    bars = [bar for one in record["sets"] for score in one["scores"] for bar in score["bars"]]
    held = sum(bar["holds"] for bar in bars)
    first, *more = accuracy_tables(record)
    return Page(
        title="Predicted against measured",
        sentence=f"Over {num_rows:,} rows in {counted(len(scores), 'set')} predictions are off by"
        f" {percent(mean_frac)} on the mean; {accuracy_verdict(record, left_out)}.",
        cards=(
            Card(label="Mean error", value=percent(mean_frac), note="over all rows, whatever their set"),
            Card(label="Rows", value=f"{num_rows:,}", note=f"in {counted(len(scores), 'set')}"),
            Card(
                label="Bars",
                value=f"{held} of {len(bars)}",
                note=f"hold; not looked at: {', '.join(left_out)}" if left_out else "hold",
            ),
        ),
        asked=(
            ("Sets", ", ".join(one["set"] for one in record["sets"]) or "none"),
            *((("Not looked at", ", ".join(left_out)),) if left_out else ()),
        ),
        sections=(
            *(Section(title=chart.title, charts=(chart,)) for chart in predicted_measured(validation.sets)),
            Section(title="Set by set", charts=errors_by_set(record), tables=(first,)),
            *(Section(title=table.title, tables=(table,), is_folded=True) for table in more),
        ),
    )
