"""The network that a question runs on: drawn, its load in a step, and a collective followed chunk by chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.explorer.catalogue import named
from dovetail.explorer.elements import box, choice_field, options_html, show_chart, text_field, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.live import Live
from dovetail.explorer.networking import ASKED, MOST_WATCHED, Collective, NetworkShown, network_shown
from dovetail.explorer.state import Session, session_of, understood
from dovetail.explorer.summary import Strip
from dovetail.hardware.cluster import Cluster

LEAD = "The network under your plan: where it is busy in a step, and one collective chunk by chunk."
WORDS = ("collective", "size", "over")


class NetworkView:
    """The page in one tab; the question and the collective are in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/network", query)
        said = {name: value[:40] for name, value in query}
        first = Collective()
        self._asked = Collective(
            name=said.get("collective", first.name),
            size=said.get("size", first.size),
            over=said.get("over", first.over),
        )
        self._is_chosen = "over" in said
        self._found: NetworkShown | None = None

    def build(self) -> None:
        with self.frame.shown("Network", LEAD):
            session = Session()
            with self.frame.refusing():
                session = Session(state=understood([pair for pair in self._query if pair[0] not in WORDS]))
                session = session_of(self._query, WORDS)
            self._live = live = Live(self._site, self.frame, session)
            self._strip = Strip(live, self.frame)
            self._step = ui.element("div")
            with box("panel", "section", aria_label="A collective"):
                words("One collective, chunk by chunk", "h2")
                with box("triple"):
                    choice_field("collective", "Collective", {"": named(ASKED)}, self._asked.name, self._set("name"))
                    text_field("size", "Size per device", self._asked.size, self._set("size"))
                    self._over = choice_field("over", "Over", {}, self._asked.over, self._set("over"))
                self._said = words("", "p", "", role="status", id="collective-said")
                self._charts = ui.element("div")
        live.on_figures = live.on_busy = self._strip.show
        live.on_settled = self._settled
        self.frame.on_mode = self._draw
        with self.frame.refusing():
            live.read_job()

    async def begin(self) -> None:
        with self.frame.refusing():
            session_of(self._query, WORDS)
            await self._live.begin()

    def _set(self, name: str) -> Any:
        async def choose(value: str) -> None:
            changes: dict[str, Any] = {name: value.strip()[:40]}
            self._is_chosen = self._is_chosen or name == "over"
            with self.frame.refusing():
                self._asked = replace(self._asked, **changes)
                await self._settled()

        return choose

    async def _settled(self) -> None:
        live, first = self._live, Collective()
        asked = self._asked = self._followed(self._asked)
        if asked.name not in ASKED:
            raise InvalidInput(f"no collective is named {asked.name!r}{did_you_mean(asked.name, ASKED)}")
        told = {"collective": asked.name, "size": asked.size, "over": asked.over}
        usual = {"collective": first.name, "size": first.size, "over": "" if self._is_chosen else asked.over}
        live.words = urlencode([(name, value) for name, value in told.items() if value != usual[name]])
        live.keep()
        key = f"network {asked} {live.state.key}"
        self._found = await self._site.workers.answer(live.asker, key, network_shown, live.state, asked)
        self._draw()

    def _followed(self, asked: Collective) -> Collective:
        """The innermost dimension where nothing was chosen and the whole network is too large to follow."""
        cluster = self._live.job.cluster if self._live.job is not None else None
        is_large = isinstance(cluster, Cluster) and cluster.num_devices > MOST_WATCHED
        if self._is_chosen or not isinstance(cluster, Cluster) or not is_large:
            return asked
        return replace(asked, over=cluster.topology.dimensions[0].name)

    def _draw(self) -> None:
        found, mode = self._found, self.frame.mode
        if found is None:
            return
        self._over.content = options_html({"": found.overs}, found.over)
        self._step.clear()
        with self._step:
            for chart in found.step:
                with box("panel", "section"):
                    show_chart(chart, mode)
            if not found.step:
                with box("panel", "section"):
                    words("No device talks to another in this plan.", "p", "note")
        self._said.content = found.said
        self._charts.clear()
        with self._charts:
            if found.note:
                words(found.note, "p", "note")
            for chart in found.collective:
                show_chart(chart, mode)
        self._charts.props["data-drawn"] = "1"
        self._charts.update()
