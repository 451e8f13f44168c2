"""The first page: a model on a cluster, the best plan for it drawn, other plans, and what starts it."""

from __future__ import annotations

from dataclasses import dataclass
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
from dovetail.explorer.figures import change_label, short, unbroken
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.live import Live
from dovetail.explorer.plan_chips import chips_html
from dovetail.explorer.plan_form import PlanForm
from dovetail.explorer.scripts import PLAN_FILE, command_of, note_of, python_of
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
COLUMNS = {"plan": "plan", "step": "step", "memory": "memory", "behind": "behind", "loses": "loses most by"}
# The `data-column` of a heading that was pressed.
COLUMN = """(e) => {
  const own = e.target.closest('[data-column]');
  if (own) emit(own.dataset.column);
}"""
OPEN = ' class="open"'  # of the row whose plan is shown
FROM_ADDRESS = "This plan came with the address. Search for the best one to see what else there is."


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
        self._sorted = SortedBy()
        self._tab_of = ""  # what the tab is about, by its title

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
                with box("panel third", "section", aria_label="The plan by hand") as self._by_hand:
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
                    self._old = words("", "p", "old", id="tab-stale")
                    self._old.set_visibility(False)
                    self._body = ui.element("div").classes("tab-body")
                    self._body.props["role"] = "tabpanel"
                    self._body.props["aria-label"] = "More of the answer"
                    self._body.props["id"] = "tab"
        live.on_job, live.on_figures, live.on_busy = self._show_job, self._show_figures, self._show_busy
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

    def _show_figures(self) -> None:
        self._summary.show()
        self._degrees.show()

    def _show_busy(self) -> None:
        """While a plan is searched, what stands below is of the last answer: dimmed, named, and not to be pressed."""
        self._summary.show_busy()
        is_busy = self._live.busy is not None
        is_old = is_busy and bool(self._tab_of)  # tabs wait for the end of the search
        self._old.set_visibility(is_old)
        if is_old:
            self._old.content = escape(f"Out of date until the search ends: this is still of {self._tab_of}.")
        for element, is_dim in ((self._body, is_old), (self._by_hand, is_busy)):
            element.classes(add="stale" if is_dim else "", remove="" if is_dim else "stale")
            if bool(element.props.get("inert")) != is_dim:
                element.props["inert"] = is_dim
                element.update()

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
                self._table.content = plans_html(live.found.alternatives, live.state.plan, self._sorted)
            return
        self._drawn, self._tab_of = key, live.shown.title
        if self._tab == "plans":
            await self._show_plans(key)
        elif self._tab == "launch":
            await self._show_launch(key)
        else:
            made = f"sections {self._tab} {live.state.key}"
            if self._site.workers.known(made) is None:
                with self._fresh_body():
                    words("Working it out.", "p", "note", role="status", id="tab-busy")
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
                why = found.why_alone if found is not None else ""
                words(why or FROM_ADDRESS, "p", "note")
                button("Search again" if why else "Find the best plan", live.replan, id="plan-search")
                return
            with ui.element("div") as scatter:
                for chart in more or found.charts:
                    show_chart(chart, self.frame.mode)
            self._table = markup(plans_html(found.alternatives, live.state.plan, self._sorted), "div", "scroll")
            self._table.on("click", lambda event: self._use(event.args), js_handler=PLACE)
            self._table.on("click", lambda event: self._sort(event.args), js_handler=COLUMN)
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

    def _sort(self, column: Any) -> None:
        """By the column whose heading was pressed; pressed again, the other way round."""
        found = self._live.found
        if found is None or self._table is None or column not in COLUMNS:
            return
        self._sorted = self._sorted.by(str(column))
        self._table.content = plans_html(found.alternatives, self._live.state.plan, self._sorted)
        ui.run_javascript(f"setTimeout(() => document.getElementById('sort-{column}')?.focus(), 50)")

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
                code = words(found.text, "pre", "code", id="launch-text", tabindex="0")
                code.props["aria-label"] = f"launch text for {name}"
            else:
                words(f"Press Show beside {name} in the table for the best plan that it runs.", "p", "note")
            self._show_scripts()

    def _show_scripts(self) -> None:
        """The same question for a terminal and for Python."""
        state = self._live.state
        words("The same from the command line and in Python", "h3")
        with box("row"):
            markup(download_html(PLAN_FILE, state.plan, "Download the plan"))
            words(f"as {PLAN_FILE}, which both of these read.", "span", "note")
        try:
            told = (("command", command_of(state)), ("python", python_of(state)))
        except DovetailError as error:
            words(f"There is none: {error}.", "p", "note")
            return
        if note := note_of(state):
            words(note, "p", "note")
        for key, text in told:
            code = words(text, "pre", "code", id=f"same-{key}", tabindex="0")
            code.props["aria-label"] = "the same as a command" if key == "command" else "the same in Python"
            copy_button(f"same-{key}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedBy:
    """The column that a table is sorted by, and which way."""

    column: str = "step"
    is_down: bool = False

    def by(self, column: str) -> SortedBy:
        return SortedBy(column=column, is_down=column == self.column and not self.is_down)


def _value_in(one: Alternative, column: str) -> Any:
    """What a plan is sorted by."""
    by_label = {chip.label: chip.value for chip in one.chips}
    degrees = tuple(int(by_label.get(name, "1")) for name in ("TP", "PP", "CP", "EP", "DP"))
    return {"plan": degrees, "step": one.step_s, "memory": one.need_bytes, "loses": one.loses_by}[column]


def plans_html(plans: tuple[Alternative, ...], own: str, sorted_by: SortedBy | None = None) -> str:
    """The ranking as a table that can be sorted; a press on a row takes its plan."""
    by = sorted_by or SortedBy()
    rows = []
    places = sorted(range(len(plans)), key=lambda place: _value_in(plans[place], by.column), reverse=by.is_down)
    for place in places:
        one = plans[place]
        behind = "best" if not place else change_label(one.over_best_frac)
        is_own = one.plan == own
        use = '<span class="note">shown</span>' if is_own else _use_button(place, one.brief)
        sure = f'<span class="note">slower with {escape(one.likely)}</span>' if one.likely else ""
        rows.append(
            f'<tr data-place="{place}"{OPEN if is_own else ""}>'
            f'<th scope="row" role="rowheader" class="plan">{chips_html(one.chips, is_small=True)}</th>'
            f"{_cell('step', short(format_s(one.step_s)), 'r')}"
            f"{_cell('memory', short(format_bytes(one.need_bytes)), 'r')}"
            f"{_cell('behind', f'{behind} {sure}', 'r behind')}"
            f"{_cell('loses most by', unbroken(one.loses_by), 'loses')}"
            f'<td role="cell" class="use">{use}</td></tr>'
        )
    head = "".join(_heading(name, label, by) for name, label in COLUMNS.items())
    return _table_html("plans", head, rows)


def _heading(name: str, label: str, by: SortedBy) -> str:
    """A column's heading: a button where the table can be sorted by it."""
    kind = ' class="r"' if name in ("step", "memory", "behind") else ""
    if name == "behind":
        return f'<th scope="col" role="columnheader"{kind}>{label}</th>'
    way = ("descending" if by.is_down else "ascending") if name == by.column else "none"
    mark = {"ascending": "▲", "descending": "▼", "none": ""}[way]
    button = f'<button type="button" id="sort-{name}" data-column="{name}">{label}<i aria-hidden="true">{mark}</i>'
    return f'<th scope="col" role="columnheader" aria-sort="{way}"{kind}>{button}</button></th>'


def _table_html(kind: str, head: str, rows: list[str]) -> str:
    """A table that becomes cards on a telephone; the roles stay when its rows are no table rows any more."""
    body = "".join(row.replace("<tr", '<tr role="row"', 1) for row in rows)
    last = '<th scope="col" role="columnheader"><span class="sr">show</span></th>'
    return (
        f'<table class="stack {kind}" role="table"><thead role="rowgroup"><tr role="row">{head}{last}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table>'
    )


def _cell(label: str, html: str, kind: str) -> str:
    return f'<td role="cell" class="{kind}" data-label="{label}">{html}</td>'


def frameworks_html(rows: tuple[FrameworkRow, ...]) -> str:
    """One framework per row: the best plan that it runs, and a button that takes it."""
    told = []
    for place, one in enumerate(rows):
        name = (
            f'<th scope="row" role="rowheader" class="name">{escape(one.framework)}'
            f' <span class="note">{escape(one.version)}</span></th>'
        )
        if one.plan:
            trained = f"trains with {', '.join(one.trained)}" if one.trained else ""
            note = f'<span class="note">{escape(trained)}</span>' if trained else ""
            told.append(
                f'<tr data-place="{place}">{name}{_cell("step", short(format_s(one.step_s)), "r")}'
                f"{_cell('memory', short(format_bytes(one.need_bytes)), 'r')}"
                f"{_cell('fits with', escape(one.fits_with), 'r')}"
                f'<td role="cell" class="plan">{chips_html(one.chips, is_small=True)}{note}</td>'
                f'<td role="cell" class="use">{_use_button(place, one.framework)}</td></tr>'
            )
        else:
            told.append(f'<tr>{name}<td role="cell" colspan="5" class="plan">{escape(one.refusal)}</td></tr>')
    head = "".join(
        f'<th scope="col" role="columnheader"{kind}>{name}</th>'
        for name, kind in (
            ("framework", ""),
            ("step", ' class="r"'),
            ("memory", ' class="r"'),
            ("fits with", ' class="r"'),
            ("plan", ""),
        )
    )
    return _table_html("frameworks", head, told)


def _use_button(place: int, what: str) -> str:
    label = f'aria-label="Show {escape(what)}"'
    return f'<button type="button" class="act quiet small" data-place="{place}" {label}>Show</button>'
