"""Curves as a picture: panels side by side in one SVG, written by hand. No library needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from dovetail.report.scatter import COLOURS

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 420, 320, 84, 40, 24, 62
LEGEND_LINE = 19
MAX_MARKS = 6
RADIUS = 2.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points joined by a line; those of one `name` have one colour, dashed or not.

    `band` has x, the lower and the upper edge of a pale area around the line, if any.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    is_dashed: bool = False
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves over the same axes; `x_label` and `y_words` say a value as a person would.

    `y_unit` is what y is in, where its name does not say it and it is not logarithmic. `dashed` is what dashed curves
    have.
    """

    title: str
    x_name: str
    y_name: str
    x_label: Callable[[float], str]
    y_words: Callable[[float], str]
    curves: tuple[Curve, ...]
    is_y_log: bool = True
    y_unit: str = ""
    dashed: str = "bound"


def curves_svg(title: str, panels: Sequence[Panel]) -> str:
    """The panels side by side, x logarithmic, with one legend below."""
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    width = len(panels) * (LEFT + WIDTH + RIGHT)
    height = TOP + HEIGHT + BOTTOM + LEGEND_LINE * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for index, panel in enumerate(panels):
        left = index * (LEFT + WIDTH + RIGHT) + LEFT
        parts += [f'<g transform="translate({left},{TOP})">', *_panel(panel, names), "</g>"]
    for index, name in enumerate(names):
        y = TOP + HEIGHT + BOTTOM + LEGEND_LINE * index
        parts.append(f'<rect x="{LEFT}" y="{y - 9}" width="14" height="4" fill="{_colour(index)}"/>')
        parts.append(f'<text x="{LEFT + 22}" y="{y - 3}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _panel(panel: Panel, names: list[str]) -> Iterator[str]:
    points = [point for curve in panel.curves for point in (*curve.points, *_edges(curve))]
    xs, ys = sorted({x for x, _ in points}), [y for _, y in points]
    low, high = _y_range(ys, panel.is_y_log)

    def x_at(x: float) -> float:
        return WIDTH * _share(math.log(x), math.log(xs[0]), math.log(xs[-1]))

    def y_at(y: float) -> float:
        share = _share(math.log10(max(y, low)), math.log10(low), math.log10(high)) if panel.is_y_log else y / high
        return HEIGHT * (1 - share)

    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff" stroke="#888888"/>'
    yield f'<text x="{WIDTH / 2}" y="-14" text-anchor="middle" font-weight="bold">{escape(panel.title)}</text>'
    for x in xs[:: max(1, math.ceil(len(xs) / MAX_MARKS))]:
        yield f'<path d="M{x_at(x):.1f} 0V{HEIGHT}" stroke="#e4e4e4"/>'
        yield f'<text x="{x_at(x):.1f}" y="{HEIGHT + 18}" text-anchor="middle">{escape(panel.x_label(x))}</text>'
    for y in _y_marks(low, high, panel.is_y_log):
        yield f'<path d="M0 {y_at(y):.1f}H{WIDTH}" stroke="#e4e4e4"/>'
        yield f'<text x="-8" y="{y_at(y) + 4:.1f}" text-anchor="end">{escape(panel.y_words(y))}</text>'
    for curve in panel.curves:
        yield from _band([(x_at(x), y_at(y)) for x, y in _edges(curve)], _colour(names.index(curve.name)))
    for curve in panel.curves:
        yield from _line([(x_at(x), y_at(y)) for x, y in curve.points], _colour(names.index(curve.name)), curve)
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT + 38}" text-anchor="middle">{escape(panel.x_name)}</text>'
    turned = f"translate(-70,{HEIGHT / 2}) rotate(-90)"
    yield f'<text transform="{turned}" text-anchor="middle">{escape(panel.y_name)}</text>'


def _edges(curve: Curve) -> list[tuple[float, float]]:
    """Round the band of `curve`: along its lower edge, and back along the upper one."""
    return [(x, low) for x, low, _ in curve.band] + [(x, high) for x, _, high in reversed(curve.band)]


def _band(places: list[tuple[float, float]], colour: str) -> Iterator[str]:
    if places:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polygon points="{path}" fill="{colour}" fill-opacity="0.1"/>'


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _y_range(ys: list[float], is_log: bool) -> tuple[float, float]:
    if not is_log:
        return 0.0, 1.08 * max([*ys, 0.0]) or 1.0
    logs = [math.log10(y) for y in ys if y > 0] or [0.0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _y_marks(low: float, high: float, is_log: bool) -> list[float]:
    if is_log:
        first, last = round(math.log10(low)), round(math.log10(high))
        return [10.0**decade for decade in range(first, last + 1)]
    step = 10.0 ** math.floor(math.log10(high / 2))
    step *= next((factor for factor in (1, 2, 5, 10) if high / (step * factor) <= MAX_MARKS), 10)
    return [step * count for count in range(int(high / step) + 1)]


def _line(places: list[tuple[float, float]], colour: str, curve: Curve) -> Iterator[str]:
    dash = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
    if not curve.is_dashed:
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{colour}"/>'
