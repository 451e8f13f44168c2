"""Searches: started, watched, cancelled and gone on with; the number of one is in the address."""

from __future__ import annotations

import time
from dataclasses import replace
from html import escape
from typing import Any

from nicegui import ui

from dovetail.errors import InvalidInput
from dovetail.explorer.demo import demo_front
from dovetail.explorer.elements import box, button, drawn, show_chart, show_section, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.front_view import FrontView, whole
from dovetail.explorer.search_form import FIELDS, SearchForm
from dovetail.explorer.search_request import (
    OTHERS,
    PLAN,
    SearchRequest,
    check_can_start,
    search_query,
    search_request,
    search_request_of_form,
)
from dovetail.explorer.searches import CANCELLED, DONE, FAILED, RUNNING, Search
from dovetail.explorer.state import State, query_of, states_of
from dovetail.report.charts.convergence import convergence
from dovetail.report.charts.trail import Trail
from dovetail.units import format_duration, format_s

LEAD = (
    "Find a better plan, chip or front of chips. A search goes on when you close the page; its address finds it again."
)
LOOK_S = 0.25
NOTHING = "Choose what to look for and press Start. Below is a study that ships with Dovetail."
NUMBER = "search"
POINT = "point"
GONE = "this search is not known any more; what it scored is in the store, so starting it again goes on from there"
LABELS = {RUNNING: "Running", DONE: "Done", CANCELLED: "Cancelled", FAILED: "Failed"}


def trail_of(search: Search) -> Trail:
    """What a search has told of itself, as its chart takes it."""
    is_plan = search.asked.kind == PLAN
    return Trail(
        counted="plans" if is_plan else "systems",
        done="looked at",
        unit="s per step" if is_plan else "times as good as the base chip",
        is_more_better=not is_plan,
        marks=tuple(search.marks),
        words=(lambda value: f"{format_s(value)} per step") if is_plan else (lambda value: f"{value:.3f}x"),
    )


class SearchView:
    """The page in one tab."""

    def __init__(self, site: Site, query: list[tuple[str, str]], path: str = "/search") -> None:
        self._site, self._query = site, query
        self._is_read_only = site.settings.is_read_only
        self.frame = PageFrame(path, query)
        self.asked = SearchRequest()
        self._state: State | None = None
        self._search: Search | None = None
        self._shown = ""
        self._front: FrontView | None = None
        self._point = 0
        self._plot: Any = None
        self._num_marks = 0

    def build(self) -> None:
        with self.frame.shown("Search", LEAD), box("two"):
            with self.frame.refusing():
                self._read()
            with box("", "div"), box("panel", "section", aria_label="What to search"):
                self._form = SearchForm(self)
                with box("row"):
                    self._start = button("Start", lambda event: self.start(event.args), sent=FIELDS, id="start")
                    self._cancel = button("Cancel", self.cancel, is_quiet=True, id="cancel")
                self._hint = words("", "p", "note")
            with box("", "div"):
                with box("panel", "section", aria_label="Progress", id="progress"):
                    self._status = words("", "h2", "", id="status", role="status")
                    self._bar = ui.element("progress")
                    self._bar.props["aria-label"] = "how much is done"
                    self._told = words("", "p", "busy", id="told")
                    self._trail = ui.element("div")
                self._answer = ui.element("div")
                self._demo = ui.element("div")
                if self._search is None:
                    self._show_demo()
        self.frame.on_mode = self._draw
        ui.timer(LOOK_S, self._look)
        self._look()

    def _read(self) -> None:
        """What the address asks for, and the search it names."""
        said = dict(self._query)
        self._point = max(0, whole(said.get(POINT, "")))
        self.asked = search_request([(name, value) for name, value in self._query if name != NUMBER])
        if self.asked.kind == PLAN:
            own = ("kind", "objective", *OTHERS)
            self._state = states_of([(name, value) for name, value in self._query if name not in own])[0]
            self.asked = replace(self.asked, state=self._state)
        if NUMBER in said:
            self._search = self._site.searches.at(said[NUMBER])
            if self._search is None:
                raise InvalidInput(GONE)
            self.asked = self._search.asked
            self._state = self.asked.state

    # --- what the user does ------------------------------------------------------------------------------------------

    def ask(self, asked: SearchRequest) -> None:
        self.asked = asked
        self._keep()

    def start(self, form: Any) -> None:
        """Starts what the form says, or goes on with it: what is in the store is not scored again."""
        with self.frame.refusing():
            if self._search is not None and self._search.status == RUNNING:
                raise InvalidInput("this search is running; cancel it before another is started")
            said = form if isinstance(form, dict) and self.asked.kind != PLAN else {}
            asked = search_request_of_form(self.asked, {str(name): str(text) for name, text in said.items()})
            check_can_start(asked)
            self.asked = asked
            self._search = self._site.searches.start(asked)
            self._shown, self._front, self._point = "", None, 0
            self._plot, self._num_marks = None, 0
            for part in (self._answer, self._trail, self._demo):
                part.clear()
            self._keep(is_new=True)
            self._look()

    def cancel(self) -> None:
        if self._search is not None:
            self._search.cancel()
            self._look()

    # --- what is shown -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        search = self._search
        if search is None:
            why = "This server is read-only: searches are not started here." if self._is_read_only else NOTHING
            self._show("Nothing is running", why, is_running=False)
            self._bar.set_visibility(False)
            return
        search.look()
        now = search.standings[-1][1] if search.standings else None
        told = [now.words if now else "starting" if search.status == RUNNING else "", search.said]
        told.append(format_duration(search.took_s or time.monotonic() - search.began_s, 0))
        self._show(LABELS[search.status], "; ".join(filter(None, told)), is_running=search.status == RUNNING)
        self._set_bar(search)
        self._draw_trail(search)
        if search.status == DONE and self._shown != search.number:
            self._shown = search.number
            self._draw()

    def _show_demo(self) -> None:
        """What a front looks like, before anything was searched."""
        with self._demo:
            with box("row"):
                browse = "Browse the studies of the store" if self._site.settings.store else "Browse the demo study"
                words(browse, "a", href=self.frame.address("/study", ""))
            self._front = FrontView(self.frame, demo_front(), self._point, self._opened)
            self._front.show()

    def _draw_trail(self, search: Search) -> None:
        """The best so far and the bound, as the search goes on: drawn again when there is more of it."""
        if len(search.marks) < 2 or len(search.marks) == self._num_marks:
            return
        self._num_marks = len(search.marks)
        chart = convergence(trail_of(search))
        if self._plot is None:
            with self._trail:
                self._plot = show_chart(chart, self.frame.mode, is_whole=False)
        else:
            self._plot.update_figure(drawn(chart, self.frame.mode))

    def _show(self, status: str, told: str, *, is_running: bool) -> None:
        for element, content in ((self._status, status), (self._told, told)):
            if element.content != escape(content):
                element.content = escape(content)
        is_running = is_running or (self._is_read_only and self._search is None)
        can_resume = self._search is not None and self._search.status == CANCELLED
        label = "Resume" if can_resume else "Start"
        hint = "What was scored is kept: Resume goes on from there." if can_resume and self.asked.kind != PLAN else ""
        if self._start.content != label:
            self._start.content = label
        if self._hint.content != hint:
            self._hint.content = hint
        is_off_cancel = self._search is None or self._search.status != RUNNING
        for element, is_off in ((self._start, is_running), (self._cancel, is_off_cancel)):
            if bool(element.props.get("disabled")) != is_off:
                element.props["disabled"] = is_off
                element.update()

    def _set_bar(self, search: Search) -> None:
        now = search.standings[-1][1] if search.standings else None
        props: dict[str, Any] = {"value": 1, "max": 1} if search.status == DONE else {}
        if search.status != DONE and now is not None and now.num_all:
            props = {"value": now.num_done, "max": now.num_all}
        self._bar.set_visibility(True)
        for name in ("value", "max"):
            if self._bar.props.get(name) != props.get(name):
                self._bar.props[name] = props.get(name)
                self._bar.update()

    def _draw(self) -> None:
        """The answer, once there is one."""
        if self._search is None or self._search.ended is None:
            if self._front is not None:
                self._front.draw()
            return
        ended = self._search.ended
        self._answer.clear()
        with self._answer:
            if ended.front is not None:
                self._front = FrontView(self.frame, ended.front, self._point, self._opened)
                self._front.show()
                return
            with box("panel", "section", aria_label="Answer", id="answer"):
                words(ended.page.title, "h2")
                words(ended.page.sentence)
                for state in ended.states:
                    address = self.frame.address("/", query_of(state))
                    words(f"Open {state.model or 'it'} on the plan page", "a", href=address)
            for section in ended.page.sections:
                show_section(section, self.frame.mode)

    def _opened(self, point: int) -> None:
        self._point = point
        self._keep()

    def _keep(self, *, is_new: bool = False) -> None:
        parts = [search_query(self.asked)]
        if self.asked.kind == PLAN and self._state is not None:
            parts.append(query_of(self._state))
        if self._search is not None:
            parts.append(f"{NUMBER}={self._search.number}")
        parts += [f"{POINT}={self._point}"] if self._point else []
        self.frame.keep("&".join(filter(None, parts)), is_new=is_new)
