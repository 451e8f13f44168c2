"""Predicted against measured: every row a dot, the diagonal, and between which lines nine of ten rows lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.accuracy.compared import Compared
from dovetail.accuracy.evidence import CONFIDENCE_FRAC
from dovetail.accuracy.validation import ScoredSet
from dovetail.report.accuracy import amount
from dovetail.report.charts.chart import DECADE, Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import GREY, PALE, series
from dovetail.report.labels import percent
from dovetail.report.table import Table

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "pentagon", "hexagon")
LABELS = {
    "s": "time, s",
    "w": "power, W",
    "W": "power, W",
    "cycles": "cycles",
    "mm2": "area, mm2",
    "GiB": "memory, GiB",
}
MOST_DOTS = 3000  # of a chart; more hide each other, and each takes some 90 bytes of the page
WORST_ROWS = 40
SIGNIFICANT = 5


def predicted_measured(sets: Sequence[ScoredSet]) -> tuple[Chart, ...]:
    """A chart for every unit, both axes logarithmic; only rows above 0 have a place on them."""
    units = list(dict.fromkeys(one.unit for one in sets if one.rows))
    return tuple(_chart(unit, [one for one in sets if one.unit == unit and one.rows]) for unit in units)


def _chart(unit: str, sets: list[ScoredSet]) -> Chart:
    rows = [row for one in sets for row in one.rows if row.measured > 0 and row.predicted > 0]
    factor = _factor(rows)
    low, high = _ends(rows)
    data = [
        *_interval(low, high, factor),
        *(_dots(one, index, max(1, MOST_DOTS // len(sets))) for index, one in enumerate(sets)),
    ]
    name = "".join(letter for letter in unit.lower() if letter.isalnum())
    words = LABELS.get(unit, unit)
    return Chart(
        name=f"measured-{name}",
        title=f"Predicted against measured: {words.partition(',')[0]}",
        alt=f"Of {len(rows):,} rows in {len(sets)} sets, {percent(CONFIDENCE_FRAC, 0)} are predicted within a factor of"
        f" {factor:.2f}; on the solid line prediction and measurement agree.",
        figure={
            "data": data,
            "layout": layout(
                height=520,
                xaxis=axis(f"measured {words}", **_marked(low, high)),
                yaxis=axis(f"predicted {words}", **_marked(low, high)),
            ),
        },
        table=_table(rows, unit),
    )


def _marked(low: float, high: float) -> Figure:
    """A logarithmic axis; over few decades it is marked at 1, 2 and 5, as all nine digits lie on each other."""
    few = {"dtick": "D2"} if DECADE <= high / low < DECADE**3 else {}
    return {"type": "log", "tickformat": "~s", "range": [math.log10(low), math.log10(high)], **few}


def _factor(rows: Sequence[Compared]) -> float:
    """By which nine of ten rows are off at the most, either way."""
    off = sorted(abs(math.log(row.predicted / row.measured)) for row in rows)
    return math.exp(off[min(len(off) - 1, math.ceil(CONFIDENCE_FRAC * len(off)) - 1)]) if off else 1.0


def _ends(rows: Sequence[Compared]) -> tuple[float, float]:
    values = [value for row in rows for value in (row.measured, row.predicted)] or [1.0]
    return min(values) / 1.5, max(values) * 1.5


def _interval(low: float, high: float, factor: float) -> list[Figure]:
    band = {
        "type": "scatter",
        "mode": "lines",
        "name": f"nine of ten rows: within a factor of {factor:.2f}",
        "x": [low, high, high, low, low],
        "y": [low * factor, high * factor, high / factor, low / factor, low * factor],
        "fill": "toself",
        "fillcolor": "rgba(138,138,138,0.18)",
        "line": {"color": PALE, "width": 1, "dash": "dash"},
        "hoverinfo": "skip",
    }
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "name": "as measured",
        "x": [low, high],
        "y": [low, high],
        "line": {"color": GREY, "width": 2},
        "hoverinfo": "skip",
    }
    return [band, diagonal]


def _dots(one: ScoredSet, index: int, num_most: int) -> Figure:
    rows = [row for row in one.rows if row.measured > 0 and row.predicted > 0]
    every = max(1, -(-len(rows) // num_most))
    shown = rows[::every]
    colour, _ = series(index)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": said(f"{one.name} ({len(rows):,})"),
        "x": [_rounded(row.measured) for row in shown],
        "y": [_rounded(row.predicted) for row in shown],
        "text": [said(f"{row.kind} {row.what}: {100 * row.error_frac:+.1f} %") for row in shown],
        "marker": {"color": colour, "symbol": SYMBOLS[index // 8 % len(SYMBOLS)], "size": 6, "opacity": 0.6},
        "hovertemplate": "%{text}<br>measured %{x:.4~s}, predicted %{y:.4~s}<extra></extra>",
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT}g}")


def _table(rows: Sequence[Compared], unit: str) -> Table:
    worst = sorted(rows, key=lambda row: -abs(math.log(row.predicted / row.measured)))[:WORST_ROWS]
    return Table(
        title=f"The rows that are furthest off, {len(worst)} of {len(rows):,}",
        columns=("set", "row", "measured", "predicted", "error"),
        rows=tuple(
            (
                row.set,
                f"{row.kind} {row.what}",
                amount(row.measured, unit),
                amount(row.predicted, unit),
                f"{100 * row.error_frac:+.1f} %",
            )
            for row in worst
        ),
        align="llrrr",
        notes=("--json has every set's figures",),
    )
