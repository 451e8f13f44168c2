"""The top of a page: what was asked, time and memory with their intervals, what limits, and the plan drawn."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from dovetail.api.progress import PlanStanding
from dovetail.explorer.elements import box, button, choice_field, markup, options_html, suggest_text, text_field, words
from dovetail.explorer.figures import cards_html, short
from dovetail.explorer.frame import PageFrame
from dovetail.explorer.live import AS_PLANNED, Live, gap_label
from dovetail.explorer.plan_chips import chips_html
from dovetail.explorer.views import Remedy, stages_html
from dovetail.units import format_s

NOTHING_CHOSEN = "nothing"
NAME_FIELD = "() => emit(document.getElementById('design-name').value)"


class Summary:
    """Figures of what a tab looks at; `is_drawn` shows the plan as a diagram too."""

    def __init__(self, live: Live, *, is_drawn: bool) -> None:
        self._live, self._is_drawn = live, is_drawn
        self._offered: tuple[Remedy, ...] = ()
        with box("panel summary", "section", aria_label="Answer", id="result") as self._panel:
            self._title = words("", "h2")
            with box("busy", "div", id="busy") as self._busy:
                self._told = words("", "p", "", role="status", id="progress")
                self._bar = ui.element("progress")
                self._bar.props["aria-label"] = "how much of the search is done"
                button("Cancel", live.cancel, is_quiet=True, id="cancel-plan")
            self._busy.set_visibility(False)
            self._old = words("", "p", "old", id="stale")
            self._old.set_visibility(False)
            with box("answer", "div", id="answer", aria_live="polite") as self._answer:
                self._compared = markup("", "p", "compared")
                self._cards = markup("")
                self._plan = markup("")
                self._said = words("", "p", "note", id="said")
                self._remedies = ui.element("div").classes("remedies")
                self._remedies.props["id"] = "remedies"

    def show(self) -> None:
        """What is known now."""
        live = self._live
        self.show_busy()
        if live.shown is None:
            return
        shown = live.shown
        self._title.content = escape(shown.title)
        self._compared.content = self._compared_label()
        self._compared.set_visibility(bool(self._compared.content))
        self._cards.content = cards_html(shown.measures, live.before)
        drawn = stages_html(shown.stages, shown.copies) if self._is_drawn else ""
        self._plan.content = f"{chips_html(shown.chips)}{drawn}"
        told = live.found.said if live.found is not None and live.found.plan == live.state.plan else ""
        self._said.content = escape(told)
        self._said.set_visibility(bool(told))
        self._show_remedies(shown.remedies)
        self._panel.props["data-ready"] = "1"
        self._panel.update()

    def _show_remedies(self, remedies: tuple[Remedy, ...]) -> None:
        """Changes of a plan that does not fit, each to be tried with a press."""
        if remedies == self._offered:
            return
        self._offered = remedies
        self._remedies.clear()
        if not remedies:
            return
        with self._remedies:
            words("What makes it fit:" if remedies[0].fits else "No single change makes it fit. Nearest:", "p", "note")
            for one in remedies:
                button(f"{one.label}: {one.need}", self._trying(one.plan), is_quiet=True)

    def _trying(self, plan: str) -> Any:
        async def use() -> None:
            await self._live.use(plan)

        return use

    def _compared_label(self) -> str:
        live = self._live
        if not live.session.reference:
            return ""
        [own] = live.session.reference
        if own.key == live.state.key:
            return f"This is the reference, <b>{escape(own.name)}</b>."
        return f"Changes are against <b>{escape(own.name)}</b>." if live.before else ""

    def show_busy(self) -> None:
        """How far a search is; figures of another question are dimmed, and say whose they are."""
        live, busy = self._live, self._live.busy
        self._busy.set_visibility(busy is not None)
        if busy is not None:
            self._told.content = escape(f"Planning {busy.what}: {_progress_label(live)}")
            now = busy.now
            props = {"value": now.num_done, "max": now.num_all} if now is not None and now.num_all else {}
            for name in ("value", "max"):
                self._bar.props[name] = props.get(name)
            self._bar.update()
        is_old = live.is_stale
        self._old.set_visibility(is_old)
        if is_old and live.shown is not None:
            self._old.content = f"Out of date: these figures are still of {escape(live.shown.title)}."
        if busy is not None and live.shown is None:
            self._title.content = escape(busy.what)
        self._answer.classes(add="stale" if is_old else "", remove="" if is_old else "stale")
        self._answer.props["aria-busy"] = "true" if is_old else "false"
        self._answer.update()


def _progress_label(live: Live) -> str:
    busy = live.busy
    assert busy is not None, "nothing is searched"
    if busy.now is None:
        return f"waiting behind {busy.num_before} others" if busy.num_before else "starting"
    for standing in busy.now.standing:
        if isinstance(standing, PlanStanding) and standing.best:
            best = f"best so far {short(format_s(standing.best[0].step_s))} per step"
            looked_at = f"; {standing.tally.num_plans:,} plans" if standing.tally.num_plans else ""
            return f"{best}{gap_label(busy.now)}{looked_at}"
    return busy.now.words


class Keeping:
    """Names a design, keeps it to be compared, and chooses what figures are compared with."""

    def __init__(self, live: Live) -> None:
        self._live, self._named = live, ""
        with box("keeping", "div"):
            self._choice = choice_field("reference", "Compare with", self._groups(), self._chosen(), live.compare_with)
            self._name = text_field("design-name", "Name of this design", "", _ignore, maxlength="40")
            with box("row"):
                button("Keep to compare", self._pin, is_quiet=True, sent=NAME_FIELD, id="pin")
                button("Make it the reference", self._refer, is_quiet=True, sent=NAME_FIELD, id="refer")
            self._pinned = words("", "p", "note", role="status", id="pinned")

    def show(self) -> None:
        live = self._live
        self._choice.content = options_html(self._groups(), self._chosen())
        if self._named != live.default_name:
            suggest_text(self._name, live.default_name, self._named)
            self._named = live.default_name
        names = ", ".join(pin.name or "unnamed" for pin in live.session.pins)
        self._pinned.content = escape(f"Kept: {names}. See Compare." if names else "")

    def _groups(self) -> dict[str, list[tuple[str, str]]]:
        session = self._live.session
        pins = [(str(index), pin.name or "unnamed") for index, pin in enumerate(session.pins)]
        chosen = [own for own in session.reference if own.key not in {pin.key for pin in session.pins}]
        own = [("keep", one.name or AS_PLANNED) for one in chosen]
        return {"": [("", NOTHING_CHOSEN), *own, *pins]}

    def _chosen(self) -> str:
        session = self._live.session
        if not session.reference:
            return ""
        known = {pin.key: str(index) for index, pin in enumerate(session.pins)}
        return known.get(session.reference[0].key, "keep")

    def _pin(self, event: Any) -> None:
        self._live.pin(str(event.args))
        self.show()

    async def _refer(self, event: Any) -> None:
        await self._live.refer(str(event.args))
        self.show()


def _ignore(_: str) -> None:
    """A name is read when it is used."""


class Strip:
    """One line of what a page is about: the question of the plan page, and what that comes to."""

    def __init__(self, live: Live, frame: PageFrame) -> None:
        self._live, self._frame = live, frame
        with box("strip", "div", id="result") as self._box:
            self._told = markup("", "p", "question")
            self._cancel = button("Cancel", live.cancel, is_quiet=True, id="cancel-plan")

    def show(self) -> None:
        live = self._live
        self._cancel.set_visibility(live.busy is not None)
        if live.busy is not None:
            self._told.content = escape(f"Planning {live.busy.what}: {_progress_label(live)}")
            return
        if live.shown is None:
            return
        by_key = {one.key: one for one in live.shown.measures}
        figures = ", ".join(f"{by_key[key].shown}" for key in ("step", "memory") if key in by_key)
        chips = ", ".join(f"{one.label} {one.value}" for one in live.shown.chips[:4])
        link = f'<a href="{escape(self._frame.address("/", live.session.query))}">change it on Plan</a>'
        self._told.content = f"<b>{escape(live.shown.title)}</b>: {escape(figures)}; {escape(chips)} ({link})"
        self._box.props["data-ready"] = "1"
        self._box.update()
