"""What every chart must be: plain data that Plotly takes as it is, with words and a table beside it."""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go

from dovetail.report.charts.chart import Chart
from dovetail.report.charts.themes import Mode, themed


def check_chart(chart: Chart) -> list[dict[str, Any]]:
    """The chart's traces, once Plotly has checked every name and value, in light and in dark."""
    assert json.loads(json.dumps(chart.figure, allow_nan=False)) == chart.figure, "a figure is plain JSON"
    mode: Mode
    for mode in ("light", "dark"):
        go.Figure(themed(chart.figure, mode))  # raises where Plotly knows no such thing
    assert chart.figure["data"], "something is drawn"
    assert chart.alt.endswith("."), chart.alt
    assert chart.table.rows, "the numbers are there as a table"
    found: list[dict[str, Any]] = chart.figure["data"]
    return found


def trace_named(chart: Chart, name: str) -> dict[str, Any]:
    traces: list[dict[str, Any]] = chart.figure["data"]
    [found] = [trace for trace in traces if trace.get("name") == name]
    return found
