"""The first page: a model on a cluster, the best plan for it, and what becomes of that when the hardware is turned."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

from nicegui import ui

from dovetail.errors import DovetailError, InvalidInput
from dovetail.explorer.answers import (
    Prepared,
    figures_of_job,
    found_for_state,
    job_of_state,
    page_of_state,
    prepared,
    result_of,
    unchanged,
)
from dovetail.explorer.elements import box, button, markup, show_section, slider, words
from dovetail.explorer.figures import Measures, cards_html, figure_in_words, measures_of
from dovetail.explorer.frame import Frame, Site
from dovetail.explorer.packed import MOST_IN_ADDRESS
from dovetail.explorer.plan_form import PlanForm
from dovetail.explorer.state import FIRST, MAX_PINS, State, query_of, states_of
from dovetail.files.job import OpenJob
from dovetail.hardware.altered import MOST_TIMES, Figure
from dovetail.report.page import Page

LEAD = "Choose a model and a cluster, get the best plan, and turn the hardware to see what moves."
STEP = 0.05  # of a slider, in doublings
SETTLED_S = 0.35  # without a turn: then everything is worked out anew
TOO_LONG = "This upload is too large for a link: the page keeps it until it is closed."


class PlanView:
    """The page in one tab; all its state is `state` and `pins`, and both are in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = Frame("/", query)
        self.state, self.pins = FIRST, ()  # type: State, tuple[State, ...]
        self._number = 0  # of the last thing asked: what answers an earlier one comes too late
        self._is_turning = self._is_stale = False
        self._ready: tuple[State, Prepared, Measures] | None = None  # the plan on the hardware as it is
        self._page: Page | None = None
        self._sliders: dict[str, Any] = {}

    def build(self) -> None:
        with self.frame.shown("Plan and what-if", LEAD), box("two"):
            with self.frame.refusing():
                self.state, self.pins = states_of(self._query)
            with box("side", "div"):
                with box("panel first", "section", aria_label="What is trained, and on what"):
                    self._form = PlanForm(self)
                with box("panel third", "section", aria_label="Hardware"):
                    words("Turn the hardware", "h2")
                    self._turns = ui.element("div")
                    with box("row"):
                        self._anew = button("Plan anew", self.plan_anew, id="plan-anew")
                        self._reset = button("Reset", self.reset, is_quiet=True, id="reset")
                    words("The plan stays the same until it is planned anew.", "p", "note")
            with box("side", "div"):
                with box("panel second", "section", aria_label="Result", aria_live="polite", id="result"):
                    self._title = words("", "h2")
                    self._busy = words("", "p", "busy", role="status", id="busy")
                    self._cards = markup("")
                    self._sentence = words("", "p")
                    self._said = words("", "p", "note")
                    with box("row"):
                        button("Pin this design", self.pin, is_quiet=True, id="pin")
                        self._pinned = words("", "span", "note", role="status", id="pinned")
                self._sections = ui.element("div").classes("last")
        self.frame.on_mode = self._show_sections
        with self.frame.refusing():
            self._show_job(job_of_state(self.state))

    async def begin(self) -> None:
        """Shows what the address asks for; called once the browser listens."""
        with self.frame.refusing():
            states_of(self._query)  # an address that makes no sense stays said
            await self._planned() if not self.state.plan else await self._settled()

    # --- what the user does ------------------------------------------------------------------------------------------

    async def ask(self, wanted: Callable[[], State]) -> None:
        """Another model, cluster or size: the best plan for it; `wanted` raises where it is none."""
        with self.frame.refusing():
            state = wanted()
            job = job_of_state(state)
            self.state = state
            self._show_job(job)
            await self._planned()

    async def plan_anew(self) -> None:
        """The best plan for the hardware as it was turned."""
        with self.frame.refusing():
            await self._planned()

    async def reset(self) -> None:
        self.state = unchanged(self.state)
        self._show_job(job_of_state(self.state))
        with self.frame.refusing():
            await self._settled()

    async def turn(self, figure: Figure, text: str) -> None:
        """A figure of the hardware, by its slider in doublings."""
        with self.frame.refusing():
            self.state = self.state.with_factor(figure.key, 2 ** _bounded(text))
            self._sliders[figure.key].content = _said(figure, self.state)
            await self._turned()

    async def resize(self, counts: list[int], text: str) -> None:
        """The number of devices, by the place of its slider."""
        with self.frame.refusing():
            self.state = replace(
                self.state, devices=counts[max(0, min(len(counts) - 1, int(_bounded(text, len(counts)))))]
            )
            self._sliders["devices"].content = f"{self.state.devices:,}"
            await self._turned()

    def pin(self) -> None:
        with self.frame.refusing():
            if not self.state.plan:
                raise InvalidInput("there is no plan yet to pin; wait for it")
            if len(self.pins) >= MAX_PINS:
                raise InvalidInput(f"at most {MAX_PINS} designs are pinned at once; remove one on the compare page")
            if self.state not in self.pins:
                self.pins = (*self.pins, self.state)
            self._keep()

    # --- what follows ------------------------------------------------------------------------------------------------

    async def _planned(self) -> None:
        self._number += 1
        number = self._number
        self._busy.content = "Planning: every plan that may be best is looked at, which takes some seconds."
        try:
            asked = replace(self.state, plan="")
            found = await self._site.workers.answer(f"plan {query_of(asked)}", found_for_state, asked)
        finally:
            if number == self._number:
                self._busy.content = ""
        if number == self._number:
            self.state = self.state.with_plan(found.plan)
            self._said.content = escape(found.said)
            await self._settled()

    async def _turned(self) -> None:
        """Quick figures at once, and all others when the hand rests; turns that come meanwhile are taken together."""
        if not self.state.plan:
            return
        self._number += 1
        if self._is_turning:
            self._is_stale = True
            return
        self._is_turning = True
        try:
            while True:
                self._is_stale, number = False, self._number
                await self._quick()
                if not self._is_stale:
                    break
        finally:
            self._is_turning = False
        await asyncio.sleep(SETTLED_S)
        if number == self._number:
            await self._settled()

    async def _quick(self) -> None:
        now = await asyncio.to_thread(self._quick_measures, self.state)
        self._cards.content = cards_html(*now)

    def _quick_measures(self, state: State) -> tuple[Measures, Measures]:
        """Figures of the plan on the hardware as it was turned, and as it is: none of the latter where it is not."""
        own = unchanged(state)
        if self._ready is None or self._ready[0] != own:
            plan = prepared(own)
            self._ready = own, plan, measures_of(result_of(plan, own, has_changes=False))
        _, plan, before = self._ready
        if not state.factors:
            return before, ()
        return measures_of(result_of(plan, state, has_changes=False)), before

    async def _settled(self) -> None:
        """Everything there is to say of the state."""
        self._number += 1
        number, state = self._number, self.state
        await self._quick()
        page = await self._site.workers.answer(f"page {query_of(state)}", page_of_state, state)
        if number != self._number:
            return
        self._page = page
        self._title.content = escape(page.title)
        self._sentence.content = escape(page.sentence)
        self._keep()
        self._show_sections()

    def _show_sections(self) -> None:
        if self._page is None:
            return
        self._sections.clear()
        with self._sections:
            for section in self._page.sections:
                show_section(section, self.frame.mode)

    def _show_job(self, job: OpenJob) -> None:
        """The form and the sliders for what is asked."""
        self._form.show(self.state, job)
        self._title.content = escape(f"{job.workload.model.name} on {job.cluster.name}")
        self._turns.clear()
        self._sliders = {}
        with self._turns:
            for figure in figures_of_job(job):
                self._slider(figure)
            self._device_slider(job)
            if not self._sliders:
                words("A cluster of several parts is changed in its file.", "p", "note")

    def _slider(self, figure: Figure) -> None:
        most = math.log2(MOST_TIMES)
        place = math.log2(self.state.factors.get(figure.key, 1.0))
        _, self._sliders[figure.key] = slider(
            f"turn-{figure.key}",
            figure.label,
            _said(figure, self.state),
            lambda text: self.turn(figure, text),
            figure.note,
            min=str(-most),
            max=str(most),
            step=str(STEP),
            value=f"{place:.4f}",
        )

    def _device_slider(self, job: OpenJob) -> None:
        own = job.cluster.num_devices
        counts = [count for count in (own // 4, own // 2, own, 2 * own, 4 * own) if self._can_have(count)]
        if len(counts) > 1:
            _, self._sliders["devices"] = slider(
                "turn-devices",
                "devices",
                f"{own:,}",
                lambda text: self.resize(counts, text),
                "more copies or fewer of the same plan",
                min="0",
                max=str(len(counts) - 1),
                step="1",
                value=str(counts.index(own)),
            )

    def _can_have(self, num_devices: int) -> bool:
        try:
            return (
                num_devices > 0
                and job_of_state(replace(self.state, devices=num_devices)).cluster.num_devices == num_devices
            )
        except DovetailError:
            return False

    def _keep(self) -> None:
        """The state into the address and the links."""
        query = query_of(self.state, self.pins)
        is_kept = len(query) <= MOST_IN_ADDRESS
        self.frame.keep(query, is_kept=is_kept)
        for path in ("/", "/compare"):
            self.frame.link(path, query if is_kept else "")
        self.frame.link("/search", f"kind=plan&{query_of(replace(self.state, plan=''))}" if is_kept else "")
        count = f"{len(self.pins)} pinned; see Compare." if self.pins else ""
        self._pinned.content = escape(count if is_kept else TOO_LONG)


def _said(figure: Figure, state: State) -> str:
    """A figure's value, and how many times its own it is."""
    factor = state.factors.get(figure.key, 1.0)
    own = escape(figure_in_words(figure.value * factor, figure.unit))
    return own if factor == 1 else f"{own} <b>×{factor:.2f}</b>"


def _bounded(text: str, most: float = MOST_TIMES) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= most:
        raise InvalidInput(f"a slider stands at a number; got {text[:40]!r}")
    return value
