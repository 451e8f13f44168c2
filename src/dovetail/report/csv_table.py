"""Records as one table of comma-separated values, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.comm.one_collective import NetworkAnswer
from dovetail.report.network import network_record


def csv_text(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A line of names, then one line a record; what is null is left empty, numbers keep every digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        writer.writerow([_cell(record[column]) for column in columns])
    return out.getvalue()


def _cell(value: Any) -> Any:
    return "" if value is None else repr(value) if isinstance(value, float) else value


RANK_COLUMNS = ("rank", "end_s", "compute_s", "exposed_s")
CRITICAL_COLUMNS = ("task", "start_s", "end_s")
LINK_COLUMNS = (
    "source", "target", "dimension", "bandwidth_bytes_per_s", "latency_s", "traffic_bytes", "busy_s", "busy_frac",
)  # fmt: skip


def points_text(answers: Sequence[NetworkAnswer]) -> str:
    """Answers of `dovetail network`, one a line: what their JSON says but for lists."""
    records = [network_record(answer, has_links=False) for answer in answers]
    columns = [key for key, value in records[0].items() if not isinstance(value, list)]
    return csv_text(records, columns)
