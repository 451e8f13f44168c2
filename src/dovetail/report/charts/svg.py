"""A figure as SVG, without a browser and without a library: bars, lines, dots, areas, texts, shapes and their axes.

It draws what charts of this folder use of Plotly's form, and asserts where one uses more. Colours of paper, ink and
lines are classes, so that one drawing serves light, dark and print: `figure_svg` brings their style along, a page has it
in its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from dovetail.report.charts.palette import SERIES
from dovetail.report.charts.scales import (
    Axis,
    Figure,
    axis_kind,
    categories_of,
    filled_in,
    letters,
    span_of,
    text_px,
)
from dovetail.report.charts.themes import FONT, INKS, Mode

WIDE_PX, HIGH_PX, FONT_PX, SMALL_PX = 880, 420, 13, 12
LINE_EM = 1.25
LEGEND_LINE_PX, SWATCH_PX, LEGEND_GAP_PX = 22, 14, 18
MOST_LABEL_FRAC = 0.36  # of the width, of labels left of an axis
MOST_LABEL_LINES = 3
MOST_HOVERED = 240  # points of a line that can be pointed at
DASHES = {"dash": "7,4", "dot": "2,3", "dashdot": "7,3,2,3", "longdash": "11,5"}
DARK_TEXT, LIGHT_TEXT = "#11151a", "#ffffff"
BRIGHT = 0.30  # luminance of a fill from which on text on it is dark


def style_of(colours: Mapping[str, str], scope: str) -> str:
    """The classes of a drawing in these colours; a page gives its own variables for them."""
    ink, dim, line, paper = (colours[name] for name in ("ink", "dim", "line", "paper"))
    rules = (
        f"{scope} text{{font-family:{FONT};font-size:{FONT_PX}px;fill:{ink}}}",
        f"{scope} text.dv-dim{{fill:{dim};font-size:{SMALL_PX}px}}",
        f"{scope} .dv-grid{{stroke:{line};stroke-width:1;fill:none}}",
        f"{scope} .dv-axis{{stroke:{dim};stroke-width:1;fill:none}}",
        f"{scope} .dv-line{{stroke:{ink};fill:none}}",
        f"{scope} .dv-dot{{fill:{ink};stroke:{ink}}}",
        f"{scope} .dv-paper{{fill:{paper}}}",
        f"{scope} .dv-edge{{stroke:{paper}}}",
        f"{scope} .dv-halo{{paint-order:stroke;stroke:{paper};stroke-width:3px;stroke-linejoin:round}}",
    )
    return "".join(rules)


def figure_svg(
    figure: Figure, *, name: str, title: str, alt: str, mode: Mode = "light", width_px: float = WIDE_PX
) -> str:
    """A whole picture with its title, legend and colours, for a file of its own."""
    head = _wrapped([title], width_px - 24, 16)
    top_px = 14 + 20 * len(head)
    drawn = _Drawing(figure, name, width_px, has_legend=True, top_px=top_px)
    words = "".join(
        f'<text x="12" y="{22 + 20 * place}" style="font-size:16px;font-weight:650">{escape(line, quote=False)}</text>'
        for place, line in enumerate(head)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dv-{mode}" viewBox="0 0 {_px(width_px)} {_px(drawn.height_px)}"'
        f' width="{_px(width_px)}" height="{_px(drawn.height_px)}" role="img" aria-label="{escape(f"{title}. {alt}")}">'
        f"<style>{style_of(INKS[mode], '.dv-' + mode)}</style>"
        f'<rect class="dv-paper" width="100%" height="100%"/>{words}{"".join(drawn.parts())}</svg>\n'
    )


def inline_svg(figure: Figure, *, name: str, width_px: float = WIDE_PX) -> str:
    """The drawing alone, for a page that has its legend, its title and its colours."""
    drawn = _Drawing(figure, name, width_px, has_legend=False)
    size = f'viewBox="0 0 {_px(width_px)} {_px(drawn.height_px)}"'
    return f'<svg class="dv-chart" {size} style="max-height:{2 * drawn.height_px:.0f}px">{"".join(drawn.parts())}</svg>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the legend: what it names, how it looks, and the traces that it stands for."""

    label: str
    swatch: str  # SVG of SWATCH_PX by SWATCH_PX
    places: tuple[int, ...]


def legend_of(figure: Figure, name: str) -> tuple[Entry, ...]:
    """What the legend of a figure names, in its order; nothing where it has none."""
    data, layout = figure["data"], figure["layout"]
    found: dict[str, tuple[str, str, list[int]]] = {}
    for place, trace in enumerate(data):
        label = trace.get("name", "")
        group = str(trace.get("legendgroup") or f"{place}:{label}")
        if group in found:
            found[group][2].append(place)
        elif label and trace.get("showlegend", True):
            found[group] = (label, _swatch(trace, place, name), [place])
        elif trace.get("legendgroup"):  # of a group that is named by a later trace
            later = [t for t in data[place:] if t.get("legendgroup") == group and t.get("showlegend", True)]
            if later:
                found[group] = (later[0].get("name", ""), _swatch(later[0], place, name), [place])
    entries = [Entry(label=label, swatch=swatch, places=tuple(own)) for label, swatch, own in found.values()]
    shapes = [shape for shape in layout.get("shapes", ()) if shape.get("showlegend")]
    entries += [Entry(label=shape["name"], swatch=_stroke_swatch(shape.get("line", {})), places=()) for shape in shapes]
    if not layout.get("showlegend", len(entries) > 1):
        return ()
    return tuple(entries)


def _swatch(trace: Figure, place: int, name: str) -> str:
    half = SWATCH_PX / 2
    if trace["type"] == "bar":
        return f'<rect y="1" width="{SWATCH_PX}" height="{SWATCH_PX - 2}" {_bar_fill(trace, place, 0, name)}/>'
    marker, mode = trace.get("marker", {}), trace.get("mode", "lines")
    if trace.get("fill", "none") != "none" and "markers" not in mode:
        return f'<rect y="1" width="{SWATCH_PX}" height="{SWATCH_PX - 2}" fill="{_area_fill(trace, place)}"/>'
    if "markers" in mode:
        drawn = _symbol(_one(marker.get("symbol", "circle"), 0), half, half, 4.5)
        return f'<path d="{drawn}" {_marker_style(trace, place, 0)}/>'
    return _stroke_swatch(trace.get("line", {}), _colour_of(trace, place))


def _stroke_swatch(line: Figure, colour: str = "") -> str:
    colour = line.get("color", colour)
    look = f'stroke="{colour}" fill="none"' if colour else 'class="dv-line"'
    width = min(3, line.get("width", 2)) or 2
    return f'<path d="M0 {SWATCH_PX / 2}H{SWATCH_PX}" {look} stroke-width="{width}"{_dash(line)}/>'


class _Drawing:
    """One figure laid out at one width."""

    def __init__(self, figure: Figure, name: str, width_px: float, *, has_legend: bool, top_px: float = 0.0) -> None:
        self.data: list[Figure] = figure["data"]
        self.layout: Figure = figure["layout"]
        self.name, self.width_px = name, width_px
        self.entries = legend_of(figure, name) if has_legend else ()
        self.margin = {"l": 12, "r": 16, "t": 16, "b": 14} | self.layout.get("margin", {})
        legend_px = LEGEND_LINE_PX * len(self._legend_lines())
        self.top_px = top_px + legend_px + (10 if legend_px else 4)
        self.legend_y_px = top_px + 4
        shown_px = float(self.layout.get("height", HIGH_PX)) - (0 if has_legend else 20)
        self.height_px = shown_px + top_px + max(0.0, legend_px - 2 * LEGEND_LINE_PX)
        self.axes = self._axes()

    def parts(self) -> Iterator[str]:
        """The pieces of the drawing, from back to front."""
        yield from self._defs()
        pairs = list(dict.fromkeys((t.get("xaxis", "x"), t.get("yaxis", "y")) for t in self.data)) or [("x", "y")]
        yield from (part for x, y in pairs for part in self._frame(x, y))
        shapes = self.layout.get("shapes", ())
        yield from (self._shape(shape) for shape in shapes if shape.get("layer") == "below")
        bars = [place for place, trace in enumerate(self.data) if trace["type"] == "bar"]
        if bars:
            yield from self._bars(bars)
        for place, trace in enumerate(self.data):
            if trace["type"] != "bar":
                yield self._group(place, self._scatter(trace, place), trace)
        yield from (self._shape(shape) for shape in shapes if shape.get("layer") != "below")
        yield from (self._annotation(one) for one in self.layout.get("annotations", ()))
        yield from self._legend()

    # The frame: axes, their places and their marks.

    def _axes(self) -> dict[str, Axis]:
        names = {t.get(f"{letter}axis", letter) for t in self.data for letter in "xy"} | {"x", "y"}
        bare = {name: self._bare_axis(name) for name in sorted(names)}
        left_px = max((self._left_px(bare[name]) for name in names if name[0] == "y"), default=0.0)
        bottom_px = max((self._bottom_px(bare[name]) for name in names if name[0] == "x"), default=0.0)
        edges = {
            "x": (max(left_px, 12.0), self.width_px - self.margin["r"]),
            "y": (self.height_px - bottom_px, self.top_px + 8),
        }
        placed = {}
        for name, axis in bare.items():
            first, last = edges[name[0]]
            start, end = axis.said.get("domain", (0, 1))
            low_px, high_px = first + start * (last - first), first + end * (last - first)
            placed[name] = replace(axis, low_px=low_px, high_px=high_px)
        return self._to_scale(placed)

    def _to_scale(self, axes: dict[str, Axis]) -> dict[str, Axis]:
        """Axes one unit of which must be as long as one of another: the one with room to spare shows more."""
        for name, axis in list(axes.items()):
            other = axis.said.get("scaleanchor")
            if not other:
                continue
            against = axes[other]
            own = abs(axis.high_px - axis.low_px) / abs(axis.high - axis.low)
            others = abs(against.high_px - against.low_px) / abs(against.high - against.low)
            scale = min(own, others)
            axes[name] = _widened(axis, abs(axis.high_px - axis.low_px) / scale)
            axes[other] = _widened(against, abs(against.high_px - against.low_px) / scale)
        return axes

    def _bare_axis(self, name: str) -> Axis:
        letter, said = name[0], self.layout.get(f"{name[0]}axis{name[1:]}", {})
        own = [trace for trace in self.data if trace.get(f"{letter}axis", letter) == name]
        values = [value for trace in own for value in trace.get(letter, ()) if value is not None]
        kind = axis_kind(said, values)
        categories = categories_of(said, values) if kind == "category" else ()
        numbers = [] if kind == "category" else list(self._numbers(own, letter))
        low, high = span_of(said, kind, numbers, len(categories))
        return Axis(
            letter=letter, said=said, kind=kind, low=low, high=high, low_px=0, high_px=1000, categories=categories
        )

    def _numbers(self, own: Sequence[Figure], letter: str) -> Iterator[float]:
        """All numbers that an axis must reach: of bars also where they begin, and where those before them end."""
        stacked: dict[Any, list[float]] = {}
        for trace in own:
            values = [value for value in trace.get(letter, ()) if isinstance(value, int | float)]
            is_length = trace["type"] == "bar" and letter == ("x" if trace.get("orientation") == "h" else "y")
            if not is_length:
                yield from values
                for error in (trace.get(f"error_{letter}", {}),):
                    pairs = zip(values, error.get("array", ()), error.get("arrayminus", ()), strict=False)
                    yield from (value for middle, up, down in pairs for value in (middle + up, middle - down))
                continue
            yield 0.0
            bases = trace.get("base", [0.0] * len(values))
            for label, base, value in zip(trace["y" if letter == "x" else "x"], bases, values, strict=True):
                if self.layout.get("barmode") == "stack":
                    ends = stacked.setdefault(label, [0.0, 0.0])
                    ends[value >= 0] += value
                    yield ends[value >= 0]
                else:
                    yield base + value
                    yield base

    def _left_px(self, axis: Axis) -> float:
        if not axis.is_shown:
            return 0.0
        room = MOST_LABEL_FRAC * self.width_px
        marked = replace(axis, low_px=self.height_px - 50, high_px=self.top_px)
        lines = [line for _, label in marked.marks() for line in self._label_lines(label, room)]
        widest = max((text_px(line, SMALL_PX) for line in lines), default=0.0)
        return float(widest + 14 + (24 if axis.title else 0))

    def _bottom_px(self, axis: Axis) -> float:
        if not axis.is_shown:
            return 6.0
        lines = max((len(letters(label)) for _, label in axis.marks()), default=1)
        labels = (SMALL_PX * LINE_EM * lines + 10) if axis.said.get("showticklabels", True) else 4.0
        title = len(_wrapped(letters(axis.title), 0.8 * self.width_px, FONT_PX)) if axis.title else 0
        return labels + 18 * title + (8 if title else 4)

    def _label_lines(self, label: str, room_px: float) -> list[str]:
        lines = _wrapped(letters(label), room_px, SMALL_PX)
        if len(lines) > MOST_LABEL_LINES:
            lines = [*lines[: MOST_LABEL_LINES - 1], f"{lines[MOST_LABEL_LINES - 1]} …"]
        return lines

    def _frame(self, x_name: str, y_name: str) -> Iterator[str]:
        x, y = self.axes[x_name], self.axes[y_name]
        left, right = sorted((x.low_px, x.high_px))
        top, bottom = sorted((y.low_px, y.high_px))
        if x.is_shown:
            if x.said.get("showgrid", x.kind != "category"):
                lines = "".join(f"M{_px(at)} {_px(top)}V{_px(bottom)}" for at, _ in x.marks())
                yield f'<path class="dv-grid" d="{lines}"/>' if lines else ""
            yield from self._x_labels(x, bottom)
        if y.is_shown:
            if y.said.get("showgrid", y.kind != "category"):
                lines = "".join(f"M{_px(left)} {_px(at)}H{_px(right)}" for at, _ in y.marks())
                yield f'<path class="dv-grid" d="{lines}"/>' if lines else ""
            yield from self._y_labels(y, left)
        is_zero_shown = x.kind == "linear" and min(x.low, x.high) <= 0 <= max(x.low, x.high) and x.is_shown
        if is_zero_shown and x.said.get("zeroline", True):
            yield f'<path class="dv-axis" d="M{_px(x.at(0))} {_px(top)}V{_px(bottom)}"/>'
        if (
            y.kind == "linear"
            and y.is_shown
            and min(y.low, y.high) <= 0 <= max(y.low, y.high)
            and y.said.get("zeroline", True)
        ):
            yield f'<path class="dv-axis" d="M{_px(left)} {_px(y.at(0))}H{_px(right)}"/>'

    def _x_labels(self, x: Axis, bottom: float) -> Iterator[str]:
        high = 0.0
        if x.said.get("showticklabels", True):
            taken = -math.inf
            for at, label in sorted(x.marks()):
                lines = letters(label)
                half = max(text_px(line, SMALL_PX) for line in lines) / 2
                if at - half < taken + 6:
                    continue
                middle = min(max(at, half + 2), self.width_px - half - 2)
                taken = middle + half
                yield _text(middle, bottom + 16, lines, "middle", "dv-dim")
                high = max(high, SMALL_PX * LINE_EM * len(lines))
        if x.title:
            lines = _wrapped(letters(x.title), 0.8 * self.width_px, FONT_PX)
            middle = (x.low_px + x.high_px) / 2
            half = max(text_px(line, FONT_PX) for line in lines) / 2
            middle = min(max(middle, half + 2), self.width_px - half - 2)
            yield _text(middle, bottom + high + 21, lines, "middle")

    def _y_labels(self, y: Axis, left: float) -> Iterator[str]:
        if y.said.get("showticklabels", True):
            taken = math.inf
            for at, label in sorted(y.marks(), reverse=True):
                lines = self._label_lines(label, MOST_LABEL_FRAC * self.width_px)
                half = SMALL_PX * LINE_EM * len(lines) / 2
                if at + half > taken + 2 and y.kind != "category":
                    continue
                taken = at - half
                first = at + 4 - SMALL_PX * LINE_EM * (len(lines) - 1) / 2
                yield _text(left - 8, first, lines, "end", "dv-dim")
        if y.title:
            middle = (y.low_px + y.high_px) / 2
            label = escape(" ".join(letters(y.title)), quote=False)
            yield f'<text transform="translate(14,{_px(middle)}) rotate(-90)" text-anchor="middle">{label}</text>'

    # What is drawn.

    def _defs(self) -> Iterator[str]:
        yield "<defs>"
        for place, trace in enumerate(self.data):
            pattern = trace.get("marker", {}).get("pattern") if trace["type"] == "bar" else None
            if pattern:
                yield _pattern(f"{self.name}-p{place}", str(trace["marker"]["color"]), pattern)
        pairs = dict.fromkeys((t.get("xaxis", "x"), t.get("yaxis", "y")) for t in self.data)
        for x_name, y_name in pairs:
            x, y = self.axes[x_name], self.axes[y_name]
            left, top = min(x.low_px, x.high_px), min(y.low_px, y.high_px)
            wide, high = abs(x.high_px - x.low_px), abs(y.high_px - y.low_px)
            yield (
                f'<clipPath id="{self.name}-{x_name}{y_name}">'
                f'<rect x="{_px(left)}" y="{_px(top - 1)}" width="{_px(wide)}" height="{_px(high + 2)}"/></clipPath>'
            )
        yield "</defs>"

    def _group(self, place: int, parts: Iterable[str], trace: Figure) -> str:
        is_cut = trace.get("cliponaxis", True)
        clip = f' clip-path="url(#{self.name}-{trace.get("xaxis", "x")}{trace.get("yaxis", "y")})"' if is_cut else ""
        opacity = f' opacity="{trace["opacity"]}"' if "opacity" in trace else ""
        return f'<g data-t="{place}"{clip}{opacity}>{"".join(parts)}</g>'

    def _bars(self, places: Sequence[int]) -> Iterator[str]:
        barmode = self.layout.get("barmode", "group")
        stacked: dict[Any, list[float]] = {}
        for order, place in enumerate(places):
            trace = self.data[place]
            is_lying = trace.get("orientation") == "h"
            labels, lengths = (trace["y"], trace["x"]) if is_lying else (trace["x"], trace["y"])
            across = self.axes[trace.get("yaxis", "y") if is_lying else trace.get("xaxis", "x")]
            along = self.axes[trace.get("xaxis", "x") if is_lying else trace.get("yaxis", "y")]
            unit_px = abs(across.at(1) - across.at(0)) if across.kind != "log" else 1.0
            step_px = unit_px if across.kind == "category" else self._spacing_px(across, labels)
            whole_px = step_px * (1 - self.layout.get("bargap", 0.2))
            is_grouped = barmode == "group" and len(places) > 1
            thick_px = whole_px / len(places) if is_grouped else whole_px
            offset_px = (order - (len(places) - 1) / 2) * thick_px if is_grouped else 0.0
            bases = trace.get("base", itertools.repeat(0.0))
            drawn = []
            for index, (label, length, base) in enumerate(zip(labels, lengths, bases, strict=False)):
                start = base
                if barmode == "stack":
                    ends = stacked.setdefault((label, trace.get("xaxis"), trace.get("yaxis")), [0.0, 0.0])
                    start = ends[length >= 0]
                    ends[length >= 0] += length
                own_px = unit_px * float(_one(trace["width"], index)) if trace.get("width") else thick_px
                box = (along.at(start), along.at(start + length), across.at(label) + offset_px - own_px / 2, own_px)
                drawn.append(self._bar(trace, place, index, box, is_lying=is_lying, along=along))
            yield self._group(place, drawn, trace)

    def _spacing_px(self, across: Axis, labels: Sequence[Any]) -> float:
        places = sorted({across.at(label) for label in labels})
        gaps = [after - before for before, after in itertools.pairwise(places)]
        return min(gaps, default=abs(across.high_px - across.low_px) / 2)

    def _bar(
        self,
        trace: Figure,
        place: int,
        index: int,
        box: tuple[float, float, float, float],
        *,
        is_lying: bool,
        along: Axis,
    ) -> str:
        start, end, side, thick = box
        low, high = sorted((along.low_px, along.high_px))
        if trace.get("cliponaxis", True) and not (max(start, end) >= low and min(start, end) <= high):
            return ""
        first, long = min(start, end), abs(end - start)
        x, y, wide, high_px = (first, side, long, thick) if is_lying else (side, first, thick, long)
        fields = {"x": _one(trace["x"], index), "y": _one(trace["y"], index)}
        hover = self._hover(trace, index, fields)
        look = _bar_fill(trace, place, index, self.name)
        rect = f'<rect x="{_px(x)}" y="{_px(y)}" width="{_px(max(wide, 0.8))}" height="{_px(max(high_px, 0.4))}" {look}'
        rect += f">{hover}</rect>" if hover else "/>"
        return rect + self._bar_text(trace, place, index, (x, y, wide, high_px), is_lying=is_lying, is_back=end < start)

    def _bar_text(
        self,
        trace: Figure,
        place: int,
        index: int,
        box: tuple[float, float, float, float],
        *,
        is_lying: bool,
        is_back: bool,
    ) -> str:
        where = trace.get("textposition", "none")
        if where == "none" or "text" not in trace:
            return ""
        text = str(_one(trace["text"], index))
        lines = letters(text)
        if not any(lines):
            return ""
        x, y, wide, high = box
        size = float(trace.get("insidetextfont", trace.get("textfont", {})).get("size", SMALL_PX))
        long = max(text_px(line, size) for line in lines)
        middle = y + high / 2 + size * 0.36 - (len(lines) - 1) * size * LINE_EM / 2
        if where in ("inside", "auto") and 0.8 * long <= wide - 1 < long:  # a little smaller, it has room
            size, long = 0.8 * size, 0.8 * long
        if where in ("inside", "auto") and long <= wide - 1 and size * LINE_EM * len(lines) <= high + 3:
            colour = _text_on(_fill_colour(trace, place, index))
            return _text(x + wide / 2, middle, lines, "middle", style=f"font-size:{size:g}px;fill:{colour}")
        if where == "inside":
            return ""
        if not is_lying:
            return _text(x + wide / 2, y - 5, lines, "middle", style=f"font-size:{size:g}px")
        at, anchor = (x - 5, "end") if is_back else (x + wide + 5, "start")
        return _text(at, middle, lines, anchor, style=f"font-size:{size:g}px")

    def _hover(self, trace: Figure, index: int, fields: dict[str, Any]) -> str:
        template = trace.get("hovertemplate", "")
        if not template or trace.get("hoverinfo") == "skip":
            return ""
        for key in ("text", "customdata", "base"):
            if trace.get(key):
                fields[key] = _one(trace[key], index)
        lines = [line for line in letters(filled_in(template, fields)) if line]
        return f"<title>{escape(chr(10).join(lines), quote=False)}</title>" if lines else ""

    def _scatter(self, trace: Figure, place: int) -> Iterator[str]:
        assert trace["type"] == "scatter", f"a figure is drawn of bars and scatters; got {trace['type']}"
        x, y = self.axes[trace.get("xaxis", "x")], self.axes[trace.get("yaxis", "y")]
        points = [
            None if u is None or v is None else (x.at(u), y.at(v)) for u, v in zip(trace["x"], trace["y"], strict=True)
        ]
        mode = trace.get("mode", "lines")
        if trace.get("fill", "none") != "none":
            yield self._area(trace, place, points, y)
        if "lines" in mode:
            yield self._line(trace, place, points)
        yield from self._errors(trace, place, x, y)
        if "markers" in mode:
            yield from self._markers(trace, place, points)
        elif "lines" in mode and trace.get("hovertemplate") and len(points) <= MOST_HOVERED:
            for index, point in enumerate(points):
                hover = self._hover(trace, index, {"x": trace["x"][index], "y": trace["y"][index]})
                if point and hover:
                    yield f'<circle cx="{_px(point[0])}" cy="{_px(point[1])}" r="7" fill-opacity="0">{hover}</circle>'
        if "text" in mode:
            yield from self._texts(trace, points)

    def _line(self, trace: Figure, place: int, points: Sequence[tuple[float, float] | None]) -> str:
        line = trace.get("line", {})
        width = line.get("width", 2)
        if not width:
            return ""
        return (
            f'<path d="{_path(points, line.get("shape", "linear"))}" fill="none" stroke="{_colour_of(trace, place)}"'
            f' stroke-width="{width}" stroke-linejoin="round"{_dash(line)}/>'
        )

    def _area(self, trace: Figure, place: int, points: Sequence[tuple[float, float] | None], y: Axis) -> str:
        """To itself, down to zero, or down to the trace before it."""
        shape = trace.get("line", {}).get("shape", "linear")
        there = [point for point in points if point]
        if not there:
            return ""
        fill = trace["fill"]
        if fill == "toself":
            outline = _path(points, shape) + "Z"
        else:
            before = self._before(place) if fill == "tonexty" else []
            zero = y.at(0) if y.kind != "log" else y.low_px
            back = before or [(there[0][0], zero), (there[-1][0], zero)]
            outline = f"{_path(there, shape)}L{_path(back, shape, is_back=True)[1:]}Z"
        words = trace["text"] if isinstance(trace.get("text"), str) else str(trace.get("name", ""))
        title = escape("\n".join(letters(words)), quote=False)
        hover = f"<title>{title}</title>" if title and trace.get("hoverinfo") != "skip" else ""
        return f'<path d="{outline}" fill="{_area_fill(trace, place)}" stroke="none">{hover}</path>'

    def _before(self, place: int) -> list[tuple[float, float]]:
        trace, own = self.data[place], None
        for earlier in self.data[:place]:
            if earlier["type"] == "scatter" and earlier.get("yaxis", "y") == trace.get("yaxis", "y"):
                own = earlier
        if own is None:
            return []
        x, y = self.axes[own.get("xaxis", "x")], self.axes[own.get("yaxis", "y")]
        return [(x.at(u), y.at(v)) for u, v in zip(own["x"], own["y"], strict=True)]

    def _errors(self, trace: Figure, place: int, x: Axis, y: Axis) -> Iterator[str]:
        """Whiskers."""
        for key, is_x in (("error_x", True), ("error_y", False)):
            error = trace.get(key)
            if not error:
                continue
            colour, width = error.get("color", _colour_of(trace, place)), error.get("thickness", 1.5)
            cap = error.get("width", 4)
            parts = []
            for u, v, up, down in zip(
                trace["x"], trace["y"], error["array"], error.get("arrayminus", error["array"]), strict=True
            ):
                if is_x:
                    a, b, at = x.at(u - down), x.at(u + up), y.at(v)
                    parts.append(
                        f"M{_px(a)} {_px(at)}H{_px(b)}M{_px(a)} {_px(at - cap)}v{2 * cap}M{_px(b)} {_px(at - cap)}v{2 * cap}"
                    )
                else:
                    a, b, at = y.at(v - down), y.at(v + up), x.at(u)
                    parts.append(
                        f"M{_px(at)} {_px(a)}V{_px(b)}M{_px(at - cap)} {_px(a)}h{2 * cap}M{_px(at - cap)} {_px(b)}h{2 * cap}"
                    )
            yield f'<path d="{"".join(parts)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'

    def _markers(self, trace: Figure, place: int, points: Sequence[tuple[float, float] | None]) -> Iterator[str]:
        marker = trace.get("marker", {})
        for index, point in enumerate(points):
            if point is None:
                continue
            size = float(_one(marker.get("size", 6), index))
            symbol = str(_one(marker.get("symbol", "circle"), index))
            hover = self._hover(trace, index, {"x": trace["x"][index], "y": trace["y"][index]})
            style = _marker_style(trace, place, index)
            if symbol == "circle":
                drawn = f'<circle cx="{_px(point[0])}" cy="{_px(point[1])}" r="{_px(size / 2)}" {style}'
                yield drawn + (f">{hover}</circle>" if hover else "/>")
            else:
                drawn = f'<path d="{_symbol(symbol, *point, size / 2)}" {style}'
                yield drawn + (f">{hover}</path>" if hover else "/>")

    def _texts(self, trace: Figure, points: Sequence[tuple[float, float] | None]) -> Iterator[str]:
        font = trace.get("textfont", {})
        for index, point in enumerate(points):
            if point is None:
                continue
            lines = letters(str(_one(trace["text"], index)))
            up, _, side = str(_one(trace.get("textposition", "middle center"), index)).partition(" ")
            size = float(_one(font.get("size", SMALL_PX), index))
            colour = _one(font["color"], index) if "color" in font else ""
            room = 4 + size / 3 if "markers" in trace.get("mode", "") else 3
            x = point[0] + {"left": -room - 2, "right": room + 2}.get(side, 0.0)
            high = size * LINE_EM * (len(lines) - 1)
            y = point[1] + {"top": -room - high, "bottom": room + size}.get(up, size * 0.36 - high / 2)
            anchor = {"left": "end", "right": "start"}.get(side, "middle")
            style = f"font-size:{size:g}px" + (f";fill:{colour}" if colour else "")
            yield _text(x, y, lines, anchor, style=style)

    def _place(self, ref: str, value: Any, letter: str) -> float:
        """Where a shape or an annotation lies: on an axis, or by a share of the paper between the axes."""
        if ref == "paper" or ref.endswith("domain"):
            axis = self.axes[ref.split()[0]] if ref.endswith("domain") else self.axes[letter]
            ends = [one for name, one in self.axes.items() if name[0] == letter] if ref == "paper" else [axis]
            first = ends[0].low_px if letter == "x" else max(one.low_px for one in ends)
            first = min(one.low_px for one in ends) if letter == "x" else first
            last = max(one.high_px for one in ends) if letter == "x" else min(one.high_px for one in ends)
            return first + float(value) * (last - first)
        axis = self.axes[ref]
        if axis.kind == "log":  # Plotly takes logarithms of annotations, and values of shapes; charts give values
            return axis.at(value)
        return axis.at(value)

    def _shape(self, shape: Figure) -> str:
        x_ref, y_ref = shape.get("xref", "x"), shape.get("yref", "y")
        x0, x1 = (self._place(x_ref, shape[key], "x") for key in ("x0", "x1"))
        y0, y1 = (self._place(y_ref, shape[key], "y") for key in ("y0", "y1"))
        line = shape.get("line", {})
        look = f'stroke="{line["color"]}"' if "color" in line else 'class="dv-line"'
        width = line.get("width", 2)
        stroke = f'{look} stroke-width="{width}"{_dash(line)}' if width else 'stroke="none"'
        opacity = f' opacity="{shape["opacity"]}"' if "opacity" in shape else ""
        if shape["type"] == "line":
            return f'<path d="M{_px(x0)} {_px(y0)}L{_px(x1)} {_px(y1)}" fill="none" {stroke}{opacity}/>'
        assert shape["type"] == "rect", shape
        fill = shape.get("fillcolor", "none")
        box = f'x="{_px(min(x0, x1))}" y="{_px(min(y0, y1))}" width="{_px(abs(x1 - x0))}" height="{_px(abs(y1 - y0))}"'
        return f'<rect {box} fill="{fill}" {stroke}{opacity}/>'

    def _annotation(self, one: Figure) -> str:
        assert not one.get("showarrow", False), "annotations are words without an arrow"
        x = self._place(one.get("xref", "x"), one["x"], "x") + one.get("xshift", 0)
        y = self._place(one.get("yref", "y"), one["y"], "y") - one.get("yshift", 0)
        font = one.get("font", {})
        size = float(font.get("size", SMALL_PX))
        lines = letters(str(one["text"]))
        high = size * LINE_EM * (len(lines) - 1)
        drop = {"top": size, "bottom": -3 - high}.get(one.get("yanchor", "middle"), size * 0.36 - high / 2)
        anchor = {"left": "start", "right": "end"}.get(one.get("xanchor", "center"), "middle")
        half = max(text_px(line, size) for line in lines)
        left = {"start": 0.0, "middle": half / 2, "end": half}[anchor]
        x = min(max(x, left + 2), self.width_px - (half - left) - 2)
        style = f"font-size:{size:g}px" + (f";fill:{font['color']}" if "color" in font else "")
        return _text(x, y + drop, lines, anchor, "" if "color" in font else "dv-halo", style=style)

    # The legend.

    def _legend_lines(self) -> list[list[tuple[Entry, float]]]:
        lines: list[list[tuple[Entry, float]]] = []
        at = math.inf
        for entry in self.entries:
            wide = SWATCH_PX + 6 + text_px(" ".join(letters(entry.label)), SMALL_PX) + LEGEND_GAP_PX
            if at + wide > self.width_px - 12:
                lines.append([])
                at = 12.0
            lines[-1].append((entry, at))
            at += wide
        return lines

    def _legend(self) -> Iterator[str]:
        for row, line in enumerate(self._legend_lines()):
            y = self.legend_y_px + row * LEGEND_LINE_PX
            for entry, x in line:
                words = escape(" ".join(letters(entry.label)), quote=False)
                yield (
                    f'<g transform="translate({_px(x)},{_px(y)})">{entry.swatch}'
                    f'<text x="{SWATCH_PX + 6}" y="{SWATCH_PX - 3}" style="font-size:{SMALL_PX}px">{words}</text></g>'
                )


def _widened(axis: Axis, span: float) -> Axis:
    middle, way = (axis.low + axis.high) / 2, math.copysign(1.0, axis.high - axis.low)
    return replace(axis, low=middle - way * span / 2, high=middle + way * span / 2)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _one(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list | tuple) else values


def _text(x: float, y: float, lines: Sequence[str], anchor: str, name: str = "", style: str = "") -> str:
    looks = f' class="{name}"' if name else ""
    looks += f' style="{style}"' if style else ""
    looks += f' text-anchor="{anchor}"' if anchor != "start" else ""
    first, *more = [escape(line, quote=False) for line in lines]
    rest = "".join(f'<tspan x="{_px(x)}" dy="{LINE_EM}em">{line}</tspan>' for line in more)
    return f'<text x="{_px(x)}" y="{_px(y)}"{looks}>{first}{rest}</text>'


def _wrapped(lines: Sequence[str], room_px: float, size_px: float) -> list[str]:
    """Lines that are each no wider than `room_px`, broken between words where they can be."""
    found = []
    for line in lines:
        now = ""
        for word in line.split(" "):
            longer = f"{now} {word}" if now else word
            if now and text_px(longer, size_px) > room_px:
                found.append(now)
                now = word
            else:
                now = longer
        found.append(now)
    return found


def _path(points: Sequence[tuple[float, float] | None], shape: str, *, is_back: bool = False) -> str:
    """Along `points`, or back along them; a gap where one is missing."""
    parts: list[str] = []
    before: tuple[float, float] | None = None
    for point in reversed(points) if is_back else points:
        if point is None:
            before = None
            continue
        x, y = _px(point[0]), _px(point[1])
        if before is None:
            parts.append(f"M{x} {y}" if not is_back else f"L{x} {y}")
        elif shape == "hv":
            parts.append(f"V{y}H{x}" if is_back else f"H{x}V{y}")
        elif shape == "vh":
            parts.append(f"H{x}V{y}" if is_back else f"V{y}H{x}")
        else:
            parts.append(f"L{x} {y}")
        before = point
    return "".join(parts)


def _dash(line: Figure) -> str:
    return f' stroke-dasharray="{DASHES[line["dash"]]}"' if line.get("dash", "solid") != "solid" else ""


def _colour_of(trace: Figure, place: int) -> str:
    colour = trace.get("line", {}).get("color") or trace.get("marker", {}).get("color")
    return str(_one(colour, 0)) if colour else SERIES[place % len(SERIES)]


def _fill_colour(trace: Figure, place: int, index: int) -> str:
    colour = trace.get("marker", {}).get("color")
    return str(_one(colour, index)) if colour else SERIES[place % len(SERIES)]


def _area_fill(trace: Figure, place: int) -> str:
    return str(trace.get("fillcolor") or _colour_of(trace, place))


def _bar_fill(trace: Figure, place: int, index: int, name: str) -> str:
    marker = trace.get("marker", {})
    fill = f'fill="url(#{name}-p{place})"' if marker.get("pattern") else f'fill="{_fill_colour(trace, place, index)}"'
    opacity = f' fill-opacity="{_one(marker["opacity"], index)}"' if "opacity" in marker else ""
    line = marker.get("line", {})
    edge = f' class="dv-edge" stroke-width="{line["width"]}"' if line.get("width") else ""
    return fill + opacity + edge


def _marker_style(trace: Figure, place: int, index: int) -> str:
    marker = trace.get("marker", {})
    colour = marker.get("color") or trace.get("line", {}).get("color")
    said = str(_one(colour, index)) if colour else SERIES[place % len(SERIES)]
    symbol, line = str(_one(marker.get("symbol", "circle"), index)), marker.get("line", {})
    opacity = f' opacity="{_one(marker["opacity"], index)}"' if "opacity" in marker else ""
    if symbol.endswith("-open"):
        return f'fill="none" stroke="{said}" stroke-width="{line.get("width", 1.5)}"{opacity}'
    edge = f' stroke="{_one(line["color"], index)}" stroke-width="{line.get("width", 1)}"' if "color" in line else ""
    return f'fill="{said}"{edge}{opacity}'


def _symbol(symbol: str, x: float, y: float, r: float) -> str:
    kind = symbol.removesuffix("-open")
    if kind == "circle":
        return f"M{_px(x - r)} {_px(y)}a{_px(r)} {_px(r)} 0 1 0 {_px(2 * r)} 0a{_px(r)} {_px(r)} 0 1 0 {_px(-2 * r)} 0Z"
    if kind == "line-ns":
        return f"M{_px(x)} {_px(y - r)}v{_px(2 * r)}"
    if kind == "line-ew":
        return f"M{_px(x - r)} {_px(y)}h{_px(2 * r)}"
    if kind == "cross":
        t = r * 0.4
        corners = [
            (-t, -r),
            (t, -r),
            (t, -t),
            (r, -t),
            (r, t),
            (t, t),
            (t, r),
            (-t, r),
            (-t, t),
            (-r, t),
            (-r, -t),
            (-t, -t),
        ]
    elif kind == "x":
        return (
            f"M{_px(x - r)} {_px(y - r)}l{_px(2 * r)} {_px(2 * r)}M{_px(x + r)} {_px(y - r)}l{_px(-2 * r)} {_px(2 * r)}"
        )
    elif kind == "square":
        t = r * 0.9
        corners = [(-t, -t), (t, -t), (t, t), (-t, t)]
    elif kind == "star":
        turns = range(10)
        corners = [(_turn(turn / 10, r * (1.15 if turn % 2 == 0 else 0.5))) for turn in turns]
    else:
        num = {"diamond": 4, "triangle-up": 3, "pentagon": 5, "hexagon": 6}[kind]
        corners = [_turn(turn / num, r * 1.15) for turn in range(num)]
    return "M" + "L".join(f"{_px(x + dx)} {_px(y + dy)}" for dx, dy in corners) + "Z"


def _turn(share: float, r: float) -> tuple[float, float]:
    return r * math.sin(2 * math.pi * share), -r * math.cos(2 * math.pi * share)


def _pattern(name: str, colour: str, said: Figure) -> str:
    size = said.get("size", 7)
    front, opacity = said.get("fgcolor", "#ffffff"), said.get("fgopacity", 0.8)
    half = size / 2
    drawn = {
        "/": f"M0 {size}L{size} 0M{-half} {half}L{half} {-half}M{half} {size + half}L{size + half} {half}",
        "\\": f"M0 0L{size} {size}M{-half} {half}L{half} {size + half}M{half} {-half}L{size + half} {half}",
        "x": f"M0 0L{size} {size}M0 {size}L{size} 0",
        "-": f"M0 {half}H{size}",
        "|": f"M{half} 0V{size}",
        "+": f"M0 {half}H{size}M{half} 0V{size}",
        ".": f"M{half} {half}h0.1",
    }[said["shape"]]
    width = 2.4 if said["shape"] == "." else 1.3
    return (
        f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
        f'<rect width="{size}" height="{size}" fill="{colour}"/><path d="{drawn}" stroke="{front}" fill="none"'
        f' stroke-opacity="{opacity}" stroke-width="{width}" stroke-linecap="round"/></pattern>'
    )


def _text_on(colour: str) -> str:
    """Dark or light, whichever can be read on `colour`."""
    if not colour.startswith("#") or len(colour) != 7:
        return DARK_TEXT
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return DARK_TEXT if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > BRIGHT else LIGHT_TEXT
