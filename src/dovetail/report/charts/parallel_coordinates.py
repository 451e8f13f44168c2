"""A study as lines across its knobs: which values the best designs have, and which knobs matter.

Plotly draws parallel coordinates by WebGL, which a closed page forbids; these are plain lines on plain axes.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import WIDE, Chart, Figure, layout, said
from dovetail.report.charts.palette import BLUE
from dovetail.report.labels import number, percent
from dovetail.report.table import Table
from dovetail.units import format_rate

MOST_LINES = 400
MOST_MARKS = 6
LEAST_APART = 0.045  # of an axis: what a line of text takes
MOST_LETTERS = 13  # of a line of an axis's name
LARGE = 1e5  # style: from here on a value is written with a prefix
JITTER = 0.012  # of an axis: lines of one value lie a little apart
# From the worst to the best of a study, five fifths of its designs.
COLOURS = ("#c3c9cf", "#9ecae1", "#56b4e9", "#0072b2", "#d55e00")
NAMES = ("slowest fifth", "4th fifth", "3rd fifth", "2nd fifth", "best fifth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One axis: its name, its value for every design, and how values are written; words stay in the order given."""

    name: str
    values: tuple[float | str, ...]
    unit: str = ""

    @property
    def is_open(self) -> bool:
        """Whether designs differ on it."""
        return len(set(self.values)) > 1


def parallel_coordinates(
    knobs: Sequence[Coordinate], score: Coordinate, *, is_more_better: bool, name: str = "coordinates"
) -> tuple[Chart, ...]:
    """A line for every design across `knobs` to its `score`, the best on top; nothing where fewer than two differ."""
    shown = [one for one in knobs if one.is_open]
    scores = [float(value) for value in score.values]
    if len(scores) < 2 or not shown or len(set(scores)) < 2:
        return ()
    axes = [*shown, score]
    scales = [_scale(one) for one in axes]
    order = sorted(range(len(scores)), key=lambda row: scores[row], reverse=not is_more_better)  # the best last
    rank = {row: place for place, row in enumerate(order)}
    if len(order) > MOST_LINES:  # the best, and others evenly
        every = len(order) / (MOST_LINES // 2)
        kept = {order[int(place * every)] for place in range(MOST_LINES // 2)} | set(order[-MOST_LINES // 2 :])
        order = [row for row in order if row in kept]
    data: list[Figure] = []
    for fifth, (colour, label) in enumerate(zip(COLOURS, NAMES, strict=True)):
        rows = [row for row in order if min(4, 5 * rank[row] // len(scores)) == fifth]
        if rows:
            data.append(_lines(rows, axes, scales, colour, label, is_best=fifth == 4))
    best = order[-1]
    words = ", ".join(f"{one.name} {_written(one.values[best])}" for one in shown)
    return (
        Chart(
            name=name,
            title="Designs across what was open",
            alt=f"{len(scores):,} designs; the best has {words}.",
            figure={"data": data, "layout": _layout(axes, scales)},
            table=_table(axes, sorted(range(len(scores)), key=lambda row: scores[row], reverse=is_more_better)[:50]),
        ),
    )


def _scale(one: Coordinate) -> dict[float | str, float]:
    """Where each value lies on its axis, 0 to 1: words evenly, numbers by their logarithm where they are far apart."""
    values = list(dict.fromkeys(one.values))
    if any(isinstance(value, str) for value in values):
        return {value: (place + 0.5) / len(values) for place, value in enumerate(values)}
    numbers = sorted(float(value) for value in values)
    if len(numbers) == 1:
        return {values[0]: 0.5}
    is_log = numbers[0] > 0 and numbers[-1] / numbers[0] >= 4
    counted = [math.log(value) if is_log else value for value in numbers]
    low, high = counted[0], counted[-1]
    return {value: (place - low) / (high - low) for value, place in zip(numbers, counted, strict=True)}


def _lines(
    rows: Sequence[int],
    axes: Sequence[Coordinate],
    scales: Sequence[dict[float | str, float]],
    colour: str,
    label: str,
    *,
    is_best: bool,
) -> Figure:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for turn, row in enumerate(rows):
        aside = JITTER * ((turn * 7) % 11 - 5) / 5
        for place, (one, scale) in enumerate(zip(axes, scales, strict=True)):
            xs.append(place)
            is_last = place == len(axes) - 1
            ys.append(round(scale[one.values[row]] + (0.0 if is_last else aside), 4))
        xs.append(None)
        ys.append(None)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": xs,
        "y": ys,
        "line": {"color": colour, "width": 1.6 if is_best else 1.0},
        "opacity": 0.9 if is_best else 0.55,
        "hoverinfo": "skip",
    }


def _layout(axes: Sequence[Coordinate], scales: Sequence[dict[float | str, float]]) -> Figure:
    shapes, words = [], []
    for place, (one, scale) in enumerate(zip(axes, scales, strict=True)):
        shapes.append({"type": "line", "x0": place, "x1": place, "y0": -0.03, "y1": 1.03, "line": {"width": 1.2}})
        marks = list(scale.items())
        if len(marks) > MOST_MARKS:
            marks = [marks[round(turn * (len(marks) - 1) / (MOST_MARKS - 1))] for turn in range(MOST_MARKS)]
        marks = _apart(marks)
        for value, at in marks:
            words.append({
                "x": place, "y": at, "text": said(_mark(value)), "showarrow": False, "yanchor": "middle",
                "xanchor": "left", "xshift": 5, "font": {"size": 11},
            })  # fmt: skip
        lines = [*textwrap.wrap(one.name, MOST_LETTERS), *([one.unit] if one.unit else [])]
        words.append({
            "x": place, "y": -0.07, "text": "<br>".join(map(said, lines)), "showarrow": False,
            "yanchor": "top", "font": {"size": 11},
        })  # fmt: skip
    axes_said = {"visible": False, "showgrid": False, "zeroline": False}
    return layout(
        meta=WIDE,
        height=430,
        showlegend=True,
        shapes=shapes,
        annotations=words,
        xaxis={**axes_said, "range": [-0.4, len(axes) - 0.4]},
        yaxis={**axes_said, "range": [-0.34, 1.06]},
    )


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else number(float(value))


def _apart(marks: Sequence[tuple[float | str, float]]) -> list[tuple[float | str, float]]:
    """Marks without those that would be written over the one before."""
    kept: list[tuple[float | str, float]] = []
    for value, at in sorted(marks, key=lambda mark: mark[1]):
        if not kept or at - kept[-1][1] >= LEAST_APART:
            kept.append((value, at))
    return kept


def _mark(value: float | str) -> str:
    """A value beside its axis, where there is little room: three digits, 1.35 M of a large one."""
    if isinstance(value, str) or abs(value) < LARGE:
        return _written(value)
    size, _, prefix = format_rate(float(value), "", 3).partition(" ")
    return f"{float(size):.3g} {prefix}"


def _table(axes: Sequence[Coordinate], rows: Sequence[int]) -> Table:
    return Table(
        title="The best designs",
        columns=tuple(f"{one.name}, {one.unit}" if one.unit else one.name for one in axes),
        rows=tuple(tuple(_written(one.values[row]) for one in axes) for row in rows),
        align="r" * len(axes),
    )


def importances(knobs: Sequence[Coordinate], score: Coordinate, *, name: str = "importances") -> tuple[Chart, ...]:
    """Of how scores differ, the share that each knob alone explains: the variance of the means of its values.

    That is the first-order index of a variance decomposition (Sobol 1993), over the designs that were scored.
    """
    scores = [float(value) for value in score.values]
    mean = sum(scores) / len(scores) if scores else 0.0
    whole = sum((value - mean) ** 2 for value in scores)
    shown = [one for one in knobs if one.is_open]
    if whole <= 0 or not shown:
        return ()
    found = []
    for one in shown:
        groups: dict[float | str, list[float]] = {}
        for value, own in zip(one.values, scores, strict=True):
            groups.setdefault(value, []).append(own)
        between = sum(len(own) * (sum(own) / len(own) - mean) ** 2 for own in groups.values())
        found.append((one.name, between / whole))
    found.sort(key=lambda pair: -pair[1])
    texts = [percent(share, 0) for _, share in found]
    figure = ranked(
        [label for label, _ in found], [share for _, share in found], texts, [BLUE] * len(found),
        "share of the variance", hover="%{y}: %{text}", tickformat="~%", nticks=4,
    )  # fmt: skip
    return (
        Chart(
            name=name,
            title="What matters",
            alt=f"{found[0][0]} alone explains {texts[0]} of how designs differ.",
            figure=figure,
            table=Table(
                title="Importances",
                columns=("", "share"),
                rows=tuple(zip([f[0] for f in found], texts, strict=True)),
                align="lr",
            ),
        ),
    )
