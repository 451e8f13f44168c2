"""Predicted against measured: every published run a dot, by publisher, and where the present question lies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.accuracy.evidence import Interval
from dovetail.accuracy.residuals import Residual
from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import GREY, PALE, SERIES, VERMILLION
from dovetail.report.labels import counted, percent
from dovetail.report.table import Table
from dovetail.units import format_rounded_s

MOST_NAMED = 7  # publishers with a colour of their own; the others share one
BAND_FRAC = 0.10
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "hexagon", "cross")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A published run: what it was, what was measured, and what is predicted."""

    residual: Residual
    measured_s: float

    @property
    def predicted_s(self) -> float:
        return self.measured_s / math.exp(self.residual.log_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The step that was asked about: its name, the time predicted, and its interval."""

    name: str
    step_s: float
    interval: Interval


def published_scatter(runs: Sequence[MeasuredRun], asked: Prediction | None = None) -> Chart:
    """Both axes logarithmic; on the diagonal both agree, in the band they are within a tenth."""
    assert runs, "there are published runs"
    sizes = Counter(one.residual.publisher for one in runs)
    named = [name for name, _ in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))][:MOST_NAMED]
    values = [value for one in runs for value in (one.measured_s, one.predicted_s)]
    values += [asked.interval.lower_s, asked.interval.upper_s] if asked else []
    low, high = min(values) / 1.4, max(values) * 1.4
    errors = sorted(abs(math.exp(-one.residual.log_ratio) - 1) for one in runs)
    data = [*_band(low, high)]
    others = [one for one in runs if one.residual.publisher not in named]
    if others:
        data.append(_dots(f"{len(sizes) - len(named)} other publishers", PALE, "circle", others))
    for place, name in enumerate(named):
        own = [one for one in runs if one.residual.publisher == name]
        data.append(_dots(name, SERIES[place % len(SERIES)], SYMBOLS[place % len(SYMBOLS)], own))
    words = (
        f"{counted(len(runs), 'published run')} of {counted(len(sizes), 'publisher')}: off by"
        f" {percent(sum(errors) / len(errors))} on the mean, half of them by less than"
        f" {percent(errors[len(errors) // 2])}"
    )
    if asked:
        data.append(_here(asked))
        words += f"; the present question, predicted at {format_rounded_s(asked.step_s, 3)}, is measured within"
        words += f" {asked.interval.bounds} in nine of ten runs"
    marks = {
        "type": "log",
        "tickformat": "~s",
        "ticksuffix": "s",
        "range": [math.log10(low), math.log10(high)],
        "dtick": 1,
    }
    return Chart(
        name="published-runs",
        title="Predicted against measured: published training runs",
        alt=f"{words}.",
        figure={
            "data": data,
            "layout": layout(
                height=520,
                showlegend=True,
                xaxis=axis("measured time of one step", **marks),
                yaxis=axis("predicted time of one step", **marks),
            ),
        },
        table=_table(runs, sizes),
    )


def _band(low: float, high: float) -> list[Figure]:
    up, down = 1 + BAND_FRAC, 1 - BAND_FRAC
    return [
        {
            "type": "scatter", "mode": "lines", "name": "within 10 %", "x": [low, high, high, low, low],
            "y": [low * up, high * up, high * down, low * down, low * up], "fill": "toself",
            "fillcolor": "rgba(138,138,138,0.22)", "line": {"color": PALE, "width": 0}, "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "lines", "name": "as measured", "x": [low, high], "y": [low, high],
            "line": {"color": GREY, "width": 1.5}, "hoverinfo": "skip",
        },
    ]  # fmt: skip


def _dots(name: str, colour: str, symbol: str, runs: Sequence[MeasuredRun]) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": said(name),
        "x": [float(f"{one.measured_s:.5g}") for one in runs],
        "y": [float(f"{one.predicted_s:.5g}") for one in runs],
        "text": [
            said(f"{one.residual.publisher}, {one.residual.name}: {one.residual.num_devices:,} x {one.residual.chip}")
            for one in runs
        ],
        "marker": {"color": colour, "symbol": symbol, "size": 6, "opacity": 0.7},
        "hovertemplate": "%{text}<br>measured %{x:.4~s}s, predicted %{y:.4~s}s<extra></extra>",
    }


def _here(asked: Prediction) -> Figure:
    """At its prediction on both axes, with the interval of what would be measured."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": said(f"this question: {asked.name}"),
        "x": [asked.step_s],
        "y": [asked.step_s],
        "text": [said(asked.name)],
        "marker": {"color": VERMILLION, "symbol": "star", "size": 17, "line": {"color": "#ffffff", "width": 1}},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [asked.interval.upper_s - asked.step_s],
            "arrayminus": [asked.step_s - asked.interval.lower_s],
            "thickness": 2.5,
            "width": 6,
            "color": VERMILLION,
        },
        "hovertemplate": "%{text}<br>predicted %{y:.4~s}s<extra></extra>",
    }


def _table(runs: Sequence[MeasuredRun], sizes: Counter[str]) -> Table:
    rows = []
    for name, count in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        own = [math.exp(-one.residual.log_ratio) - 1 for one in runs if one.residual.publisher == name]
        mean, bias = sum(map(abs, own)) / len(own), sum(own) / len(own)
        rows.append((name, f"{count:,}", percent(mean), f"{100 * bias:+.1f} %"))
    return Table(
        title="Published runs", columns=("publisher", "runs", "mean error", "bias"), rows=tuple(rows), align="lrrr"
    )
