"""What if the hardware were another: sliders beside figures that stay on the screen, against a named reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nicegui import ui

from dovetail.explorer.elements import box, button, show_chart, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.live import Live
from dovetail.explorer.state import Session, session_of, understood
from dovetail.explorer.summary import Keeping, Summary
from dovetail.explorer.turns import Turns
from dovetail.explorer.views import hardware_charts

LEAD = "Change a figure of the hardware and see what moves. The plan stays until you re-plan."


class HardwareView:
    """The page in one tab; all its state is in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/hardware", query)
        self._drawn = self._sliders_of = ""

    def build(self) -> None:
        with self.frame.shown("Hardware", LEAD), box("beside"):
            session = Session()
            with self.frame.refusing():
                session = Session(state=understood(self._query))
                session = session_of(self._query)
            self._live = live = Live(self._site, self.frame, session)
            with box("stick", "div"):
                self._summary = Summary(live, is_drawn=False)
            with box("wide", "div"):
                with box("panel", "section", aria_label="Change the hardware"):
                    words("Change the hardware", "h2")
                    self._turns = Turns(self)
                    with box("row"):
                        button("Re-plan", live.replan, id="plan-again")
                        button("Reset", self._reset, is_quiet=True, id="reset")
                    words("Re-plan searches the best plan for the hardware as changed.", "p", "note")
                with box("panel", "section", aria_label="Keep and compare"):
                    words("Keep and compare", "h2")
                    self._keeping = Keeping(live)
                self._charts = ui.element("div")
        live.on_job, live.on_figures, live.on_busy = self._show_job, self._summary.show, self._summary.show_busy
        live.on_settled = self._settled
        self.frame.on_mode = self._draw_anew
        with self.frame.refusing():
            live.read_job()
            live.show_known()
            session_of(self._query)

    async def begin(self) -> None:
        with self.frame.refusing():
            session_of(self._query)
            await self._live.begin()

    async def turn(self, key: str, factor: Callable[[], float]) -> None:
        """A figure by its slider; what stands beside it follows at once."""
        with self.frame.refusing():
            self._turns.show_factor(key, factor())
        await self._live.turn(key, factor)

    def _show_job(self) -> None:
        self._keeping.show()
        self._show_sliders()

    async def _reset(self) -> None:
        self._sliders_of = ""  # back to the middle
        await self._live.reset()

    def _show_sliders(self) -> None:
        """Of another question other sliders; those that a hand may be on stay."""
        state, job = self._live.state, self._live.job
        own = replace(state.with_plan(""), factors={}).key
        if job is not None and own != self._sliders_of:
            self._sliders_of = own
            self._turns.show(state, job)

    def _draw_anew(self) -> None:
        self._drawn = ""
        ui.timer(0, self._settled, once=True)

    async def _settled(self) -> None:
        live = self._live
        key = f"{self.frame.mode} {live.state.key}"
        if key == self._drawn or live.shown is None:
            return
        self._drawn = key
        charts = await self._site.workers.answer(live.asker, f"hardware {live.state.key}", hardware_charts, live.state)
        if key != self._drawn:
            return
        self._charts.clear()
        with self._charts:
            for chart in charts:
                with box("panel", "section"):
                    show_chart(chart, self.frame.mode)
