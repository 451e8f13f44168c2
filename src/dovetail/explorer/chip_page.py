"""The chip that a question runs on: drawn to scale beside another, with its parts, roofline and where its gain is."""

from __future__ import annotations

from nicegui import ui

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.explorer.catalogue import named
from dovetail.explorer.elements import box, choice_field, markup, show_chart, tables_html, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.live import Live
from dovetail.explorer.silicon import ChipShown, chip_shown
from dovetail.explorer.state import Session, session_of, understood
from dovetail.explorer.summary import Strip
from dovetail.hardware.catalog import chips
from dovetail.hardware.heterogeneous import chips_of

LEAD = "The chip of your cluster to scale next to another: area, power, roofline, and where a gain comes from."
BASELINE = "baseline"
DEFAULT_BASELINE, OTHER_BASELINE = "tpu-v4", "h100-sxm"  # the second where the chip is the first


class ChipView:
    """The page in one tab; the question and the baseline are in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/chip", query)
        self._baseline = dict(query).get(BASELINE, "")
        self._found: ChipShown | None = None
        self._key = ""

    def build(self) -> None:
        with self.frame.shown("Chip", LEAD):
            session = Session()
            with self.frame.refusing():
                session = Session(state=understood([pair for pair in self._query if pair[0] != BASELINE]))
                session = session_of(self._query, (BASELINE,))
            self._live = live = Live(self._site, self.frame, session)
            self._strip = Strip(live, self.frame)
            with box("baseline"):
                self._choice = choice_field(
                    BASELINE,
                    "Drawn beside",
                    {"": named(chips.names())},
                    self._baseline or DEFAULT_BASELINE,
                    self._choose,
                )
            self._body = ui.element("div")
        live.on_figures = live.on_busy = self._strip.show
        live.on_settled = self._settled
        self.frame.on_mode = self._draw
        with self.frame.refusing():
            live.read_job()

    async def begin(self) -> None:
        with self.frame.refusing():
            session_of(self._query, (BASELINE,))
            await self._live.begin()

    async def _choose(self, name: str) -> None:
        self._baseline = name
        with self.frame.refusing():
            await self._settled()

    async def _settled(self) -> None:
        live = self._live
        baseline = self._baseline or self._default()
        if baseline not in chips:
            raise InvalidInput(f"no chip is named {baseline[:60]!r}{did_you_mean(baseline[:60], chips.names())}")
        live.words = f"{BASELINE}={self._baseline}" if self._baseline else ""
        live.keep()
        key = f"chip {baseline} {live.state.key}"
        self._found = await self._site.workers.answer(live.asker, key, chip_shown, live.state, baseline)
        self._draw()

    def _default(self) -> str:
        job = self._live.job
        own = chips_of(job.cluster)[0].name if job is not None else ""
        return OTHER_BASELINE if own == DEFAULT_BASELINE else DEFAULT_BASELINE

    def _draw(self) -> None:
        found, mode = self._found, self.frame.mode
        if found is None:
            return
        self._body.clear()
        with self._body:
            with box("panel", "section", id="floorplan"):
                for chart in found.drawn:
                    show_chart(chart, mode, heading="h2")
                if not found.drawn:
                    words(f"{found.name} beside {found.baseline}", "h2")
                    words("The area of one of them is not modelled, so there is nothing to draw to scale.", "p", "note")
                markup(tables_html((found.facts,), under=found.facts.title))
            with box("overlaid"):
                for chart in found.parts:
                    with box("panel", "section"):
                        show_chart(chart, mode)
            with box("panel", "section", id="gain"):
                words("Where the gain comes from", "h2")
                for chart in found.gains:
                    show_chart(chart, mode)
                if found.why_none:
                    words(found.why_none, "p", "note")
            for chart in found.roofline:
                with box("panel", "section"):
                    show_chart(chart, mode, heading="h2")
        self._body.props["data-drawn"] = "1"
        self._body.update()
