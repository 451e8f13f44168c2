"""The first page: a model on a cluster, the best plan for it, and what becomes of that when the hardware is turned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from html import escape

from nicegui import ui

from dovetail.errors import InvalidInput
from dovetail.explorer.answers import (
    found_for_state,
    job_of_state,
    page_of_state,
    unchanged,
)
from dovetail.explorer.elements import box, button, markup, show_section, words
from dovetail.explorer.figures import cards_html
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.packed import MOST_IN_ADDRESS
from dovetail.explorer.plan_form import PlanForm
from dovetail.explorer.quick import Quick, whole_measures
from dovetail.explorer.state import DEVICES, FIRST, MAX_PINS, State, query_of, states_of, understood
from dovetail.explorer.turns import Turns
from dovetail.files.job import OpenJob
from dovetail.report.page import Page

LEAD = "Choose a model and a cluster, get the best plan, and change the hardware to see what moves."
SETTLED_S = 0.35  # without a turn: then everything is worked out anew
TOO_LONG = "This upload is too large for a link: the page keeps it until it is closed."


class PlanView:
    """The page in one tab; all its state is `state` and `pins`, and both are in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/", query)
        self.state, self.pins = FIRST, ()  # type: State, tuple[State, ...]
        self._number = 0  # of the last thing asked: what answers an earlier one comes too late
        self._is_turning = self._is_stale = self._is_limiting = False
        self._is_new = False  # whether the next state is one to come back to
        self._quick = Quick()
        self._best = FIRST, ""  # a state that was planned, and what was said of its plan
        self._page: Page | None = None
        self.job: OpenJob | None = None  # what is asked, on hardware as it is

    def build(self) -> None:
        with self.frame.shown("Plan and what-if", LEAD), box("two"):
            with self.frame.refusing():
                self.state = understood(self._query)
                self.state, self.pins = states_of(self._query)
            with box("side", "div"):
                with box("panel first", "section", aria_label="What is trained, and on what"):
                    self._form = PlanForm(self)
                with box("panel third", "section", aria_label="Hardware"):
                    words("Change the hardware", "h2")
                    self._turns = Turns(self)
                    with box("row"):
                        self._anew = button("Re-plan", self.replan, id="plan-anew")
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
            states_of(self._query)

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
            self.state, self._is_new = state, True
            self._show_job(job)
            await self._planned()

    async def replan(self) -> None:
        """The best plan for the hardware as it was turned."""
        with self.frame.refusing():
            self._is_new = True
            await self._planned()

    async def reset(self) -> None:
        self.state, self._is_new = unchanged(self.state), True
        self._show_job(job_of_state(self.state))
        with self.frame.refusing():
            await self._settled()

    async def turn(self, key: str, factor: Callable[[], float]) -> None:
        """A figure of the hardware, or how many devices there are, by its slider."""
        with self.frame.refusing():
            self.state = self.state.with_factor(key, factor())
            times = self.state.factors.get(key, 1.0)
            self._turns.show_factor(key, times)
            if key == DEVICES and self.job is not None:
                self._form.show_devices(round(self.job.cluster.num_devices * times))
            self._say_best()
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
            self._best = self.state, found.said
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
                await self._show_figures()
                if not self._is_stale:
                    break
        finally:
            self._is_turning = False
        await self._show_limit()
        await asyncio.sleep(SETTLED_S)
        if number == self._number:
            await self._settled()

    async def _show_figures(self) -> None:
        """All figures at once but what limits the step, which is as it was."""
        self._cards.content = cards_html(*await asyncio.to_thread(self._quick.figures, self.state))

    async def _show_limit(self) -> None:
        """What limits the step too, of the newest state: one at a time, however much is turned meanwhile."""
        if self._is_limiting:
            return
        self._is_limiting = True
        try:
            while True:
                number, state = self._number, self.state
                now = await self._site.workers.answer(f"figures {query_of(state)}", whole_measures, state)
                if number == self._number:
                    break
        finally:
            self._is_limiting = False
        self._quick.keep(state, now)
        self._cards.content = cards_html(now, await asyncio.to_thread(self._quick.before, state))

    def _say_best(self) -> None:
        """What was said of the best plan, and of what hardware where that was turned since."""
        state, said = self._best
        if replace(self.state, factors={}) != replace(state, factors={}):
            said = ""  # of another plan
        is_same = self.state == state
        self._said.content = escape(said if is_same or not said else f"On the hardware that it was planned for: {said}")

    async def _settled(self) -> None:
        """Everything there is to say of the state."""
        self._number += 1
        number, state = self._number, self.state
        self._say_best()
        await self._show_figures()
        await self._show_limit()
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
        self.job = job
        self._form.show(self.state, job)
        self._title.content = escape(f"{job.workload.model.name} on {job.cluster.name}")
        self._turns.show(self.state, job)

    def _keep(self) -> None:
        """The state into the address and the links."""
        query = query_of(self.state, self.pins)
        is_kept = len(query) <= MOST_IN_ADDRESS
        self.frame.keep(query, is_kept=is_kept, is_new=self._is_new)
        self._is_new = False
        for path in ("/", "/compare"):
            self.frame.link(path, query if is_kept else "")
        self.frame.link("/search", f"kind=plan&{query_of(replace(self.state, plan=''))}" if is_kept else "")
        count = f"{len(self.pins)} pinned; see Compare." if self.pins else ""
        self._pinned.content = escape(count if is_kept else TOO_LONG)
