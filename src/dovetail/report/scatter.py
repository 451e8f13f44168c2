"""Predicted against measured as a picture: one SVG, both axes logarithmic, a panel for each unit. No library needed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from dovetail.accuracy.validation import ScoredSet
from dovetail.report.accuracy import amount

PANEL, LEFT, TOP, RIGHT, BOTTOM = 460, 78, 34, 300, 58
BAND_FRAC = 0.10
RADIUS = 2.2
FEW_DECADES = 2  # with no more than these, 2 and 5 are marked between the powers of ten
# Colours that stay apart for most eyes: Okabe and Ito's eight, then darker ones for further sets.
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c6d1f", "#000000",
    "#7b3294", "#1b7837", "#b2182b", "#4d4d4d", "#01665e", "#c51b7d", "#2166ac", "#bf812d",
)  # fmt: skip
_AXES = {"s": "time", "w": "power", "W": "power", "cycles": "cycles", "mm2": "area", "GiB": "memory"}


def scatter_svg(sets: Sequence[ScoredSet]) -> str:
    """Every row of `sets` as a dot, with the diagonal and a band of ten percent on both sides of it."""
    units = list(dict.fromkeys(one.unit for one in sets if one.rows))
    height, width = TOP + PANEL + BOTTOM, LEFT + PANEL + RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * max(1, len(units))}" '
        f'width="{width}" height="{height * max(1, len(units))}" font-family="sans-serif" font-size="12">',
        "<title>predicted against measured</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for index, unit in enumerate(units):
        chosen = [one for one in sets if one.unit == unit and one.rows]
        parts += [f'<g transform="translate({LEFT},{index * height + TOP})">', *_panel(chosen, unit), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(sets: list[ScoredSet], unit: str) -> Iterator[str]:
    low, high = _decades(value for one in sets for row in one.rows for value in (row.measured, row.predicted))

    def place(value: float) -> float:
        return PANEL * (math.log10(max(value, 10.0**low)) - low) / (high - low)

    yield f'<rect width="{PANEL}" height="{PANEL}" fill="#ffffff" stroke="#888888"/>'
    yield from _grid(low, high, unit)
    yield from _diagonal(low, high)
    for index, one in enumerate(sets):
        yield f'<g fill="{COLOURS[index % len(COLOURS)]}" fill-opacity="0.55">'
        for row in one.rows:
            x, y = place(row.measured), PANEL - place(row.predicted)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"/>'
        yield "</g>"
    yield from _legend(sets)
    words = f"{_AXES.get(unit, '')} ({unit})" if unit != "cycles" else "cycles"
    yield f'<text x="{PANEL / 2}" y="{PANEL + 44}" text-anchor="middle">measured {words}</text>'
    yield f'<text transform="translate(-60,{PANEL / 2}) rotate(-90)" text-anchor="middle">predicted {words}</text>'


def _decades(values: Iterable[float]) -> tuple[int, int]:
    """Whole decades that hold every positive value, at least one."""
    logs = [math.log10(value) for value in values if value > 0]
    low, high = math.floor(min(logs, default=0.0)), math.ceil(max(logs, default=1.0))
    return low, max(high, low + 1)


def _grid(low: int, high: int, unit: str) -> Iterator[str]:
    steps = (1.0, 2.0, 5.0) if high - low <= FEW_DECADES else (1.0,)
    marks = [step * 10.0**decade for decade in range(low, high + 1) for step in steps]
    for mark in (mark for mark in marks if mark <= 10.0**high):
        at = PANEL * (math.log10(mark) - low) / (high - low)
        yield f'<path d="M{at:.1f} 0V{PANEL}M0 {PANEL - at:.1f}H{PANEL}" stroke="#e4e4e4" fill="none"/>'
        words = _tick(mark, unit)
        yield f'<text x="{at:.1f}" y="{PANEL + 18}" text-anchor="middle" fill="#444444">{words}</text>'
        yield f'<text x="-8" y="{PANEL - at + 4:.1f}" text-anchor="end" fill="#444444">{words}</text>'


def _tick(value: float, unit: str) -> str:
    if unit != "s":
        if value < 1:
            return f"{value:g}"
        return f"{value:,.0f}" if value < 100_000 else f"1e{round(math.log10(value))}"
    return amount(value * (1 + 1e-9), unit).replace(".0 ", " ")  # style: a tolerance, so that 1e-6 is 1 us


def _diagonal(low: int, high: int) -> Iterator[str]:
    """Where both agree, and ten percent to either side."""
    up = PANEL * math.log10(1 + BAND_FRAC) / (high - low)
    down = -PANEL * math.log10(1 - BAND_FRAC) / (high - low)
    corners = f"0,{PANEL - up:.2f} {PANEL - up:.2f},0 {PANEL},0 {PANEL},{down:.2f} {down:.2f},{PANEL} 0,{PANEL}"
    yield f'<polygon points="{corners}" fill="#bbbbbb" fill-opacity="0.5"/>'
    yield f'<path d="M0 {PANEL}L{PANEL} 0" stroke="#333333" fill="none"/>'


def _legend(sets: list[ScoredSet]) -> Iterator[str]:
    for index, one in enumerate(sets):
        y = 12 + 19 * index
        mape = one.scored[0].score.mape_frac
        words = escape(f"{one.name}, {len(one.rows):,}: {100 * mape:.1f} %")
        yield f'<circle cx="{PANEL + 16}" cy="{y}" r="5" fill="{COLOURS[index % len(COLOURS)]}"/>'
        yield f'<text x="{PANEL + 27}" y="{y + 4}">{words}</text>'
    y = 16 + 19 * len(sets)
    yield f'<rect x="{PANEL + 10}" y="{y - 5}" width="12" height="10" fill="#bbbbbb" fill-opacity="0.5"/>'
    yield f'<text x="{PANEL + 27}" y="{y + 4}" fill="#444444">within 10 %</text>'
    note = "set, rows: mean error"
    yield f'<text x="{PANEL + 10}" y="-10" fill="#444444">{note}</text>'
