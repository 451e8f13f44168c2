"""How sure the answer is: predicted against measured on published runs, and where the present question lies."""

from __future__ import annotations

from nicegui import ui

from dovetail.explorer.elements import box, markup, show_chart, tables_html, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.live import Live
from dovetail.explorer.state import Session, session_of, understood
from dovetail.explorer.summary import Strip
from dovetail.explorer.trust import Trusted, trusted

LEAD = "Predicted against measured on published training runs, and where your question lies among them."


class AccuracyView:
    """The page in one tab; the question is in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/accuracy", query)
        self._found: Trusted | None = None

    def build(self) -> None:
        with self.frame.shown("Accuracy", LEAD):
            session = Session()
            with self.frame.refusing():
                session = Session(state=understood(self._query))
                session = session_of(self._query)
            self._live = live = Live(self._site, self.frame, session)
            self._strip = Strip(live, self.frame)
            self._body = ui.element("div")
        live.on_figures = live.on_busy = self._strip.show
        live.on_settled = self._settled
        self.frame.on_mode = self._draw
        with self.frame.refusing():
            live.read_job()

    async def begin(self) -> None:
        with self.frame.refusing():
            session_of(self._query)
            await self._live.begin()

    async def _settled(self) -> None:
        live = self._live
        self._found = await self._site.workers.answer(live.asker, f"trust {live.state.key}", trusted, live.state)
        self._draw()

    def _draw(self) -> None:
        found, mode = self._found, self.frame.mode
        if found is None:
            return
        self._body.clear()
        with self._body:
            with box("panel", "section"):
                words("How sure this answer is", "h2")
                words(found.said, "p", "", id="sure")
                if found.lacking:
                    words(f"No published run is like it in this: {found.lacking}.", "p", "old")
                for chart in found.charts:
                    show_chart(chart, mode)
            with box("panel", "section", id="nearest"):
                words(found.nearest.title, "h2")
                markup(tables_html((found.nearest,), under=found.nearest.title), "div", "scroll")
                if found.runs.rows:
                    words(found.runs.title, "h3")
                    markup(tables_html((found.runs,), under=found.runs.title), "div", "scroll")
        self._body.props["data-drawn"] = "1"
        self._body.update()
