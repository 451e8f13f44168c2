"""The first page: a model on a cluster, the best plan for it drawn, other plans, and what starts it."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from dovetail.errors import DovetailError
from dovetail.explorer.answers import (
    MOST_SPREAD_S,
    Alternative,
    FrameworkRow,
    LaunchText,
    frameworks_for_state,
    launch_of_state,
    spread_for_state,
)
from dovetail.explorer.degrees import Degrees
from dovetail.explorer.elements import (
    PLACE,
    box,
    button,
    choice_field,
    copy_button,
    download_html,
    markup,
    show_chart,
    show_section,
    words,
)
from dovetail.explorer.figures import change_label, short
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.live import Live
from dovetail.explorer.plan_form import PlanForm
from dovetail.explorer.state import Session, session_of, understood
from dovetail.explorer.summary import Keeping, Summary
from dovetail.explorer.views import sections
from dovetail.explorer.work import Cancelled
from dovetail.units import format_bytes, format_s

LEAD = "The best plan for a model on a cluster: what it takes, what limits it, and what else there is."
TABS = {
    "plans": "Other plans",
    "launch": "Run it",
    "timeline": "Pipeline and memory",
    "time": "Where the time goes",
    "report": "Everything",
}
TAB, FRAMEWORK = "tab", "framework"


class PlanView:
    """The page in one tab; all its state is in the address."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/", query)
        said = dict(query)
        self._tab = said.get(TAB, "") if said.get(TAB, "") in TABS else "plans"
        self._framework = said.get(FRAMEWORK, "")
        self._drawn = ""  # what the tab shows, by its key
        self._rows: tuple[FrameworkRow, ...] = ()
        self._rows_of = ""
        self._table: ui.html | None = None  # of plans, while their tab is open

    def build(self) -> None:
        with self.frame.shown("Plan", LEAD), box("two"):
            session = Session()
            with self.frame.refusing():
                words_of_state = [(name, value) for name, value in self._query if name not in (TAB, FRAMEWORK)]
                session = Session(state=understood(words_of_state))
                session = session_of(self._query, (TAB, FRAMEWORK))
            self._live = live = Live(self._site, self.frame, session)
            with box("side", "div"):
                with box("panel first", "section", aria_label="What is trained, and on what"):
                    self._form = PlanForm(live, can_upload=not self._site.settings.is_read_only)
                with box("panel third", "section", aria_label="The plan by hand"):
                    self._degrees = Degrees(live)
                    with box("row"):
                        button("Best plan", live.replan, is_quiet=True, id="plan-again")
                with box("panel last", "section", aria_label="Keep and compare"):
                    words("Keep and compare", "h2")
                    self._keeping = Keeping(live)
            with box("side", "div"):
                with box("second", "div"):
                    self._summary = Summary(live, is_drawn=True)
                with box("third", "div"):
                    self._tabs = ui.element("div").classes("tabs")
                    self._tabs.props["role"] = "tablist"
                    self._tabs.props["aria-label"] = "More of the answer"
                    self._body = ui.element("div").classes("tab-body")
                    self._body.props["role"] = "tabpanel"
                    self._body.props["aria-label"] = "More of the answer"
                    self._body.props["id"] = "tab"
        live.on_job, live.on_figures, live.on_busy = self._show_job, self._summary.show, self._show_busy
        live.on_settled = self._settled
        self.frame.on_mode = self._draw_anew
        self._show_tabs()
        with self.frame.refusing():
            live.read_job()
            live.show_known()
            session_of(self._query, (TAB, FRAMEWORK))

    async def begin(self) -> None:
        with self.frame.refusing():
            session_of(self._query, (TAB, FRAMEWORK))  # an address that makes no sense stays said
            await self._live.begin()

    def _show_job(self) -> None:
        live = self._live
        if live.job is not None:
            self._form.show(live.state, live.job)
        self._degrees.show()
        self._keeping.show()

    def _show_busy(self) -> None:
        self._summary.show_busy()
        is_old = self._live.busy is not None and self._live.shown is not None  # tabs wait for the end of the search
        self._body.classes(add="stale" if is_old else "", remove="" if is_old else "stale")

    # --- tabs --------------------------------------------------------------------------------------------------------

    def _show_tabs(self) -> None:
        self._tabs.clear()
        with self._tabs:
            for name, label in TABS.items():
                is_open = "true" if name == self._tab else "false"
                found = words(
                    label, "button", "tab", type="button", role="tab", id=f"tab-{name}", aria_selected=is_open
                )
                found.props["aria-controls"] = "tab"
                found.on("click", self._opening(name), js_handler="() => emit()")

    def _opening(self, name: str) -> Any:
        async def open_tab() -> None:
            self._tab = name
            self._show_tabs()
            self._live.words = self._words
            self._live.keep()
            with self.frame.refusing():
                await self._show_tab()

        return open_tab

    @property
    def _words(self) -> str:
        own = {TAB: self._tab if self._tab != "plans" else "", FRAMEWORK: self._framework}
        return "&".join(f"{name}={value}" for name, value in own.items() if value)

    async def _settled(self) -> None:
        await self._show_tab()

    def _draw_anew(self) -> None:
        self._drawn = ""
        ui.timer(0, self._show_tab, once=True)

    async def _show_tab(self) -> None:
        live = self._live
        if not live.state.plan or live.shown is None:
            return
        of = live.found_of if self._tab == "plans" else live.state.key
        key = f"{self._tab} {self._framework} {self.frame.mode} {of}"
        if key == self._drawn:
            if self._tab == "plans" and self._table is not None and live.found is not None:
                self._table.content = plans_html(live.found.alternatives, live.state.plan)
            return
        self._drawn = key
        if self._tab == "plans":
            await self._show_plans(key)
        elif self._tab == "launch":
            await self._show_launch(key)
        else:
            made = f"sections {self._tab} {live.state.key}"
            found = await self._site.workers.answer(live.asker, made, sections, live.state, self._tab)
            if key == self._drawn:
                with self._fresh_body():
                    for section in found:
                        show_section(section, self.frame.mode)

    def _fresh_body(self) -> Any:
        self._body.clear()
        self._table = None
        return self._body

    async def _show_plans(self, key: str) -> None:
        """The scatter of plans, and why each of them loses; more plans for the scatter where that takes no long."""
        live, found, spread = self._live, self._live.found, self._live.found_of
        more = self._site.workers.known(f"spread {spread}")
        with self._fresh_body(), box("panel", "section"):
            words("Other plans, and why they lose", "h2")
            if found is None or not found.alternatives:
                words(
                    "This plan came with the address. Search for the best one to see what else there is.", "p", "note"
                )
                button("Best plan", live.replan, id="plan-search")
                return
            with ui.element("div") as scatter:
                for chart in more or found.charts:
                    show_chart(chart, self.frame.mode)
            self._table = markup(plans_html(found.alternatives, live.state.plan), "div", "scroll")
            self._table.on("click", lambda event: self._use(event.args), js_handler=PLACE)
        if more is None and spread and found.took_s < MOST_SPREAD_S:
            asked = live.found_state
            try:
                made = f"spread {spread}"
                more = await self._site.workers.search(live.asker, made, lambda _: None, spread_for_state, asked)
            except Cancelled:
                return
            if key == self._drawn and more:
                scatter.clear()
                with scatter:
                    for chart in more:
                        show_chart(chart, self.frame.mode)

    async def _use(self, place: Any) -> None:
        found = self._live.found
        if found is not None and isinstance(place, int) and 0 <= place < len(found.alternatives):
            await self._live.use(found.alternatives[place].plan)

    async def _show_launch(self, key: str) -> None:
        """What each framework runs, and the text that starts it."""
        live = self._live
        asked = live.state.with_plan("")
        with self._fresh_body(), box("panel", "section"):
            words("What each framework runs as printed", "h2")
            told = words("Searching what each framework runs.", "p", "busy", role="status", id="frameworks-busy")
            rows = ui.element("div").classes("scroll")
            self._text = ui.element("div")
        await self._show_text()
        if self._rows_of != asked.key:
            made = f"frameworks {asked.key}"

            def tell(now: Any) -> None:
                if key == self._drawn:
                    told.content = escape(f"Searching what each framework runs: {now.words}")

            try:
                self._rows = await self._site.workers.search(live.asker, made, tell, frameworks_for_state, asked)
            except Cancelled:
                return
            self._rows_of = asked.key
        if key != self._drawn:
            return
        told.content = "" if self._rows else "Launch texts are written for clusters of equal devices."
        with rows:
            table = markup(frameworks_html(self._rows))
            table.on("click", lambda event: self._run(event.args), js_handler=PLACE)

    async def _run(self, place: Any) -> None:
        """Takes the plan that a framework runs, and its launch text."""
        if isinstance(place, int) and 0 <= place < len(self._rows):
            row = self._rows[place]
            self._framework = row.framework
            self._live.words = self._words
            await self._live.use(row.plan)
            with self.frame.refusing():
                await self._show_tab()

    async def _choose_framework(self, name: str) -> None:
        self._framework = name
        self._live.words = self._words
        self._live.keep()
        with self.frame.refusing():
            await self._show_text()

    async def _show_text(self) -> None:
        from dovetail.report.launchers.frameworks import launchers

        live, names = self._live, launchers.names()
        name = self._framework if self._framework in names else "megatron-lm"
        try:
            made = f"launch {name} {live.state.key}"
            found = await self._site.workers.answer(live.asker, made, launch_of_state, live.state, name)
        except DovetailError as error:
            found = LaunchText(text="", differing=(f"{name} cannot run this plan: {error}",), suffix="sh")
        self._text.clear()
        with self._text:
            words("Launch text of the plan above", "h3")
            choice_field("framework", "Framework", {"": [(one, one) for one in names]}, name, self._choose_framework)
            for line in found.differing:
                words(line, "p", "note")
            if found.text:
                with box("row"):
                    copy_button("launch-text")
                    markup(download_html(f"launch.{found.suffix}", found.text, "Download"))
                    markup(download_html("plan.yaml", live.state.plan, "Download the plan"))
                code = words(found.text, "pre", "code", id="launch-text", tabindex="0")
                code.props["aria-label"] = f"launch text for {name}"


def plans_html(plans: tuple[Alternative, ...], own: str) -> str:
    """The ranking as a table, with a button that takes each plan."""
    rows = []
    for place, one in enumerate(plans):
        behind = "best" if not place else change_label(one.over_best_frac)
        use = '<span class="note">shown</span>' if one.plan == own else _use_button(place, one.brief)
        sure = f'<span class="note"> {escape(one.likely)} sure</span>' if one.likely else ""
        rows.append(
            f'<tr><th scope="row" class="long">{escape(one.brief)}</th><td class="r">{short(format_s(one.step_s))}</td>'
            f'<td class="r">{short(format_bytes(one.need_bytes))}</td><td class="r">{behind}{sure}</td>'
            f"<td>{escape(one.loses_by)}</td><td>{use}</td></tr>"
        )
    head = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (
            ("plan", ""),
            ("step", ' class="r"'),
            ("memory", ' class="r"'),
            ("behind", ' class="r"'),
            ("loses most by", ""),
            ("<span class=sr>show</span>", ""),
        )
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def frameworks_html(rows: tuple[FrameworkRow, ...]) -> str:
    """A framework a row: the best plan that it runs, and a button that takes it."""
    told = []
    for place, one in enumerate(rows):
        name = f'<th scope="row">{escape(one.framework)} <span class="note">{escape(one.version)}</span></th>'
        if one.plan:
            trained = f"; trains with {', '.join(one.trained)}" if one.trained else ""
            told.append(
                f'<tr>{name}<td class="r">{short(format_s(one.step_s))}</td>'
                f'<td class="r">{short(format_bytes(one.need_bytes))}</td><td class="r">{escape(one.fits_with)}</td>'
                f'<td class="long">{escape(one.brief + trained)}</td><td>{_use_button(place, one.framework)}</td></tr>'
            )
        else:
            told.append(f'<tr>{name}<td colspan="5">{escape(one.refusal)}</td></tr>')
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("framework", "step", "memory", "fits with", "plan", "<span class=sr>show</span>")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(told)}</tbody></table>"


def _use_button(place: int, what: str) -> str:
    label = f'aria-label="Show {escape(what)}"'
    return f'<button type="button" class="act quiet small" data-place="{place}" {label}>Show</button>'
