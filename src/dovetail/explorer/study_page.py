"""Studies of the store: the front of one to browse, and every point of it to open."""

from __future__ import annotations

import asyncio

from nicegui import ui

from dovetail.explorer.demo import demo_front
from dovetail.explorer.elements import box, choice_field, markup, tables_html, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.front_view import FrontView, whole
from dovetail.explorer.search_form import AXES
from dovetail.explorer.studies import Listed, Opened, studies_of, study_opened
from dovetail.search.codesign.pareto import checked_axes

LEAD = "What a search has kept: its Pareto front, and every system on it to open."
NO_STORE = (
    "This is the demo study. Start the explorer with `dovetail ui --store FILE` to browse what `dovetail codesign` or"
    " `dovetail pareto` kept there, or search for a front now."
)
NO_STUDY = "This store holds no study yet; searches that are started on the search page are kept in it."
FIRST_AXES = AXES[0][0]


class StudyView:
    """The page in one tab: study, axes and point are in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site = site
        self.frame = PageFrame("/study", query)
        said = dict(query)
        self._key, self._axes = said.get("study", ""), said.get("axes", FIRST_AXES)
        self._point = max(0, whole(said.get("point", "")))
        self._front: FrontView | None = None

    def build(self) -> None:
        with self.frame.shown("Study", LEAD):
            self._choice = ui.element("div")
            self._body = ui.element("div")
            if not self._site.settings.store:
                with self._choice, box("panel", "section"):
                    words(NO_STORE)
                    words("Search for a front", "a", href=self.frame.address("/search", "kind=front"))
                with self._body:
                    self._front = FrontView(self.frame, demo_front(), self._point, self._keep)
                    self._front.show()
        self.frame.on_mode = lambda: self._front.draw() if self._front else None

    async def begin(self) -> None:
        if not self._site.settings.store:
            return
        with self.frame.refusing():
            listed = await asyncio.to_thread(studies_of, self._site.settings.store)
            self._show_choice(listed)
            if listed:
                whole = [one.key for one in listed if one.has_front and one.is_current and one.num_rows]
                self._key = self._key or (whole or [listed[0].key])[0]
                self._show_choice(listed)
                await self._open()

    def _show_choice(self, listed: tuple[Listed, ...]) -> None:
        self._choice.clear()
        with self._choice, box("panel", "section", aria_label="Study"):
            if not listed:
                words(NO_STUDY)
                words("Start a search", "a", href=self.frame.address("/search", ""))
                return
            options = {"": [(one.key, one.said) for one in listed]}
            with box("pair"):
                choice_field("study", "Study", options, self._key, self._choose)
                choice_field("axes", "Axes", {"": list(AXES)}, self._axes, self._choose_axes)

    async def _choose(self, key: str) -> None:
        self._key, self._point = key, 0
        with self.frame.refusing():
            await self._open()

    async def _choose_axes(self, axes: str) -> None:
        self._axes, self._point = axes, 0
        with self.frame.refusing():
            await self._open()

    async def _open(self) -> None:
        axes = checked_axes(self._axes.split(","))
        opened = await self._site.workers.fresh("study", study_opened, self._site.settings.store, self._key, axes)
        self._show(opened)

    def _show(self, opened: Opened) -> None:
        self._keep(self._point)
        self._body.clear()
        self._front = None
        with self._body:
            if opened.front is not None:
                self._front = FrontView(self.frame, opened.front, self._point, self._keep)
                self._front.show()
            else:
                with box("panel", "section"):
                    words(f"No front: {opened.why}.")
            with box("panel", "section"):
                markup(
                    f"<details><summary>The study, and its best rows</summary>{tables_html(opened.tables)}</details>"
                )

    def _keep(self, point: int) -> None:
        self._point = point
        parts = [f"study={self._key}" if self._key else "", f"axes={self._axes}" if self._axes != FIRST_AXES else ""]
        self.frame.keep("&".join(filter(None, (*parts, f"point={point}" if point else ""))))
