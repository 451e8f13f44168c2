"""A front on a page: a chart to press, the systems on all their axes, and the one that was pressed, whole."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from nicegui import ui

from dovetail.explorer.elements import box, choice_field, drawn, markup, show_chart, tables_html, words
from dovetail.explorer.frame import PageFrame
from dovetail.explorer.fronts import Front, FrontPoint
from dovetail.explorer.plan_chips import Chip, chips_html
from dovetail.explorer.state import query_of
from dovetail.report.charts.chart import Chart, axis, layout, said
from dovetail.report.charts.palette import BLUE, VERMILLION
from dovetail.report.charts.parallel_coordinates import Coordinate, importances, parallel_coordinates
from dovetail.report.labels import number
from dovetail.report.table import Table

MOST_LISTED = 200


class FrontView:
    """The front in one tab; which point is open is told to `keep`, who writes it into the address."""

    def __init__(self, frame: PageFrame, front: Front, point: int, keep: Callable[[int], None]) -> None:
        self._frame, self._front, self._keep = frame, front, keep
        self._across, self._up = min(1, len(front.axes) - 1), 0
        self.point = point if 0 <= point < len(front.points) else 0

    def show(self) -> None:
        front = self._front
        with box("overlaid"):
            self._show_front(front)
            self._detail = ui.element("div")
        self._designs = ui.element("div")
        self.open(self.point)
        self._show_designs()

    def _show_front(self, front: Front) -> None:
        with box("panel", "section", aria_label="Front"):
            words(front.title, "h2")
            words(front.said[0], "p", "note")
            rest = "".join(f"<li>{escape(said)}</li>" for said in front.said[1:])
            markup(f"<details><summary>How it was searched</summary><ul>{rest}</ul></details>")
            with box("pair"):
                options = {"": [(str(index), name) for index, name in enumerate(front.axes)]}
                choice_field("across", "Across", options, str(self._across), self._turn("_across"))
                choice_field("up", "Up", options, str(self._up), self._turn("_up"))
            self._plot = ui.plotly(self._figure()).classes("w-full")
            self._plot.props["role"] = "img"
            self._plot.props["aria-label"] = f"{len(front.points)} systems of a Pareto front; listed below"
            self._plot.on("plotly_click", lambda event: self._pressed(event.args), js_handler=PRESSED)
            self._choice = choice_field(
                "point", "Open a point", {"": self._options()}, str(self.point), lambda text: self.open(whole(text))
            )

    def open(self, point: int) -> None:
        """Shows one system whole, with links that open it on the first page."""
        if not 0 <= point < len(self._front.points):
            return
        self.point = point
        self._keep(point)
        own = self._front.points[point]
        self._plot.update_figure(self._figure())
        self._detail.clear()
        with self._detail, box("panel", "section", aria_label="The system", aria_live="polite", id="open-point"):
            words(f"System {point + 1} of {len(self._front.points):,}", "h2")
            markup(chips_html(system_chips(own), label="The system"))
            with box("row"):
                for state in own.states:
                    if state.model:
                        address = self._frame.address("/", query_of(state))
                        words(f"Open it on Plan with {state.model}", "a", href=address)
                        words("Draw its chip", "a", href=self._frame.address("/chip", query_of(state)))
                    else:
                        words("Its model is of a file, and cannot be opened by name.", "p", "note")
            markup(tables_html((own.system,), under=own.system.title))

    def draw(self) -> None:
        """Draws again, as after a change of colours."""
        self._plot.update_figure(self._figure())
        self._show_designs()

    def _show_designs(self) -> None:
        """All systems at once: a line for each across its knobs, and how much each knob matters."""
        self._designs.clear()
        with self._designs:
            for chart in design_charts(self._front):
                with box("panel", "section"):
                    show_chart(chart, self._frame.mode)

    def _turn(self, name: str) -> Callable[[str], None]:
        def turn(text: str) -> None:
            if 0 <= whole(text) < len(self._front.axes):
                setattr(self, name, whole(text))
                self._plot.update_figure(self._figure())

        return turn

    def _pressed(self, place: Any) -> None:
        if isinstance(place, int):
            self.open(place)
            self._choice.props["value"] = str(place)

    def _options(self) -> list[tuple[str, str]]:
        """Points as words, the first axis first; of very many, some along it."""
        points = self._front.points
        every = max(1, -(-len(points) // MOST_LISTED))
        listed = sorted({*range(0, len(points), every), self.point})
        axis_name = self._front.axes[0]
        return [
            (str(place), f"{place + 1}: {number(points[place].figures[0])} {axis_name}; {points[place].brief}")
            for place in listed
        ]

    def _figure(self) -> dict[str, Any]:
        return drawn(front_chart(self._front, self._across, self._up, self.point), self._frame.mode)


def system_chips(point: FrontPoint) -> tuple[Chip, ...]:
    """What a system is made of, as chips."""
    said_of = {row[0]: row[1] for row in point.system.rows}
    pairs = (
        ("Tensor cores", ("tensor cores", "rows of a tensor core", "columns of a tensor core")),
        ("Vector cores", ("vector cores", "lanes of a vector core")),
        ("SRAM, MiB", ("shared SRAM, MiB",)),
        ("HBM, GiB", ("HBM stacks", "GiB of a stack")),
        ("Network", ("network",)),
    )
    return tuple(
        Chip(label=label, value=" × ".join(said_of[name] for name in names), meaning=" × ".join(names))
        for label, names in pairs
        if all(name in said_of for name in names)
    )


def design_charts(front: Front) -> tuple[Chart, ...]:
    """Parallel coordinates of the front's knobs, and their importances for the first axis."""
    if not front.knobs:
        return ()
    knobs = [
        Coordinate(name=name, values=tuple(one.knobs[place] for one in front.points))
        for place, name in enumerate(front.knobs)
    ]
    name, _, unit = front.axes[0].partition(", ")
    score = Coordinate(name=name, values=tuple(one.figures[0] for one in front.points), unit=unit)
    lines = parallel_coordinates(knobs, score, is_more_better=front.is_more_better[0])
    return (*lines, *importances(knobs, score))


PRESSED = "(event) => { const at = event?.points?.[0]; if (at) emit(at.pointIndex ?? at.pointNumber); }"


def whole(text: str) -> int:
    """The number of a point or an axis, as a page's address or a field says it; -1 where it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else -1


def front_chart(front: Front, across: int, up: int, opened: int) -> Chart:
    """Every system of the front on two of its axes, the open one set apart."""
    xs, ys = ([one.figures[place] for one in front.points] for place in (across, up))
    is_open = [place == opened for place in range(len(front.points))]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": xs,
        "y": ys,
        "text": [one.brief for one in front.points],
        "hovertemplate": (
            f"%{{text}}<br>{said(front.axes[across])}: %{{x:,.4~g}}<br>"
            f"{said(front.axes[up])}: %{{y:,.4~g}}<extra></extra>"
        ),
        "marker": {
            "color": [VERMILLION if own else BLUE for own in is_open],
            "size": [14 if own else 8 for own in is_open],
            "symbol": ["diamond" if own else "circle" for own in is_open],
        },
    }
    rows = tuple((one.brief, *(number(value) for value in one.figures)) for one in front.points[:MOST_LISTED])
    return Chart(
        name="front",
        title=front.title,
        alt=f"{len(front.points)} systems by {front.axes[across]} and {front.axes[up]}",
        figure={
            "data": [dots],
            "layout": layout(xaxis=axis(front.axes[across]), yaxis=axis(front.axes[up]), showlegend=False, height=420),
        },
        table=Table(title="The front", columns=("system", *front.axes), rows=rows, align="l" + "r" * len(front.axes)),
    )
