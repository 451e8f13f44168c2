"""Named designs side by side: what differs first, what each comes to with its interval, and charts of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from nicegui import ui

from dovetail.explorer.comparing import Cell, Compared, Row, compared, names_of
from dovetail.explorer.elements import box, button, markup, show_chart, text_field, words
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.state import MAX_PINS, Session, State, query_of, session_of

LEAD = "Designs that you kept, side by side: differences first, changes against the first."
EMPTY = "Nothing is kept yet. On Plan or Hardware, give a design a name and press \u201cKeep to compare\u201d."


class CompareView:
    """The page in one tab: designs are in the address alone."""

    def __init__(self, site: Site, query: list[tuple[str, str]]) -> None:
        self._site, self._query = site, query
        self.frame = PageFrame("/compare", query)
        self._session = Session()
        self._found: Compared | None = None

    def build(self) -> None:
        with self.frame.shown("Compare", LEAD):
            with self.frame.refusing():
                self._session = session_of(self._query)
            self._body = ui.element("div")
            with self._body:
                words("Working out the figures." if self._session.pins else EMPTY, "p", "note")
        self.frame.on_mode = self._draw

    async def begin(self) -> None:
        with self.frame.refusing():
            session_of(self._query)
            await self._show()

    async def _show(self) -> None:
        self._keep()
        pins = self._session.pins
        if pins:
            key = " ".join(f"{pin.name}: {pin.key}" for pin in pins)
            self._found = await self._site.workers.answer("compare", f"compare {key}", compared, pins)
        else:
            self._found = None
        self._draw()

    def _draw(self) -> None:
        self._body.clear()
        with self._body:
            if self._found is None:
                with box("panel", "section"):
                    words(EMPTY)
                    words("Go to Plan", "a", href=self.frame.address("/", self._session.query))
                    if self._session.state.plan:
                        button("Add what the plan page shows", self._add, id="add")
                return
            found, pins = self._found, self._session.pins
            with box("panel", "section", aria_label="Designs"):
                markup(compared_html(found, self._links(pins)), "div", "scroll compare")
                state = self._session.state
                is_new = state.plan and state.key not in {pin.key for pin in pins} and len(pins) < MAX_PINS
                if is_new:
                    button("Add what the plan page shows", self._add, is_quiet=True, id="add")
            with box("overlaid"):
                for chart in found.charts:
                    with box("panel", "section"):
                        show_chart(chart, self.frame.mode)
            with box("panel", "section", aria_label="Names"):
                words("Rename or remove", "h2")
                for index, name in enumerate(names_of(pins)):
                    with box("rename"):
                        text_field(f"name-{index}", f"Name of {name}", name, self._renaming(index), maxlength="40")
                        button(f"Remove {name}", self._removing(index), is_quiet=True, id=f"remove-{index}")
        self._body.props["data-ready"] = "1"
        self._body.update()

    def _links(self, pins: Sequence[State]) -> list[str]:
        return [self.frame.address("/", query_of(pin, pins, self._session.reference)) for pin in pins]

    async def _add(self) -> None:
        state = self._session.state
        with self.frame.refusing():
            kept = state if state.name else state.named(state.model or "uploaded")
            self._session = replace(self._session, pins=(*self._session.pins, kept))
            await self._show()

    def _renaming(self, index: int) -> Any:
        async def rename(name: str) -> None:
            pins = list(self._session.pins)
            pins[index] = pins[index].named(name)
            self._session = replace(self._session, pins=tuple(pins))
            with self.frame.refusing():
                await self._show()

        return rename

    def _removing(self, index: int) -> Any:
        async def remove() -> None:
            pins = self._session.pins
            self._session = replace(self._session, pins=(*pins[:index], *pins[index + 1 :]))
            with self.frame.refusing():
                await self._show()

        return remove

    def _keep(self) -> None:
        query = self._session.query
        self.frame.keep(query)
        self.frame.carry(query)


def compared_html(found: Compared, links: Sequence[str]) -> str:
    """Figures, then what differs, then, folded, what is the same."""
    heads = "".join(
        f'<th scope="col"><a href="{escape(link)}">{escape(name)}</a></th>'
        for name, link in zip(found.names, links, strict=True)
    )
    wide = f"--designs:{len(found.names)}"
    parts = [f'<table class="designs" style="{wide}"><thead><tr><th scope="col">design</th>{heads}</tr></thead>']
    parts.append(_group("What it comes to", found.figures, len(found.names)))
    differing = found.differing
    if differing:
        parts.append(_group("What differs", differing, len(found.names)))
    parts.append("</table>")
    if found.same:
        same = "".join(f"<li>{escape(row.label)}: {escape(row.cells[0].shown)}</li>" for row in found.same)
        parts.append(f"<details><summary>The same in all ({len(found.same)})</summary><ul>{same}</ul></details>")
    return "".join(parts)


def _group(title: str, rows: Sequence[Row], num_designs: int) -> str:
    head = f'<tr class="group"><th scope="rowgroup" colspan="{num_designs + 1}">{escape(title)}</th></tr>'
    body = "".join(
        f'<tr><th scope="row">{escape(row.label)}</th>{"".join(map(_cell_html, row.cells))}</tr>' for row in rows
    )
    return f"<tbody>{head}{body}</tbody>"


def _cell_html(cell: Cell) -> str:
    moved = f'<span class="moved {cell.word}">{escape(cell.moved)}</span>' if cell.moved else ""
    interval = f'<span class="note">{escape(cell.interval)}</span>' if cell.interval else ""
    return f"<td><b>{escape(cell.shown)}</b> {moved}{interval}</td>"
