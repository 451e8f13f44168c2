"""What every page has: the heading with its links, light or dark, and the line that says what cannot be."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

from nicegui import ui

from dovetail.errors import DovetailError
from dovetail.explorer.elements import box, markup, words
from dovetail.explorer.searches import Searches
from dovetail.explorer.settings import Settings
from dovetail.explorer.style import STYLE
from dovetail.explorer.work import Workers
from dovetail.report.charts.themes import Mode

PAGES = {
    "/": "Plan",
    "/hardware": "Hardware",
    "/chip": "Chip",
    "/network": "Network",
    "/search": "Search",
    "/compare": "Compare",
    "/accuracy": "Accuracy",
}
WITH_SESSION = tuple(path for path in PAGES if path != "/search")  # pages that are of the question of the first
THEMES = {"": "as the system", "light": "light", "dark": "dark"}
THEME = "theme"
# A chart that is taken away while it is fitted to its width: Plotly says so, and nothing is wrong.
CALM = """addEventListener('unhandledrejection', (event) => {
  if (String(event.reason?.message ?? event.reason).startsWith('Resize must be passed')) event.preventDefault();
});"""
# Back and forward: the page of that address, where it is another and not a place in this one.
BACK = """addEventListener('popstate', () => {
  if (window.dovetailShows !== undefined && window.dovetailShows !== location.search) location.reload();
});"""
# Shown where the server does not answer: one that was started again has another token, and refuses old pages.
LOST = """addEventListener('DOMContentLoaded', () => {
  const message = document.querySelector('#popup span:last-child');
  if (message) message.textContent = 'Reconnecting. If dovetail ui was started again, open the address it printed.';
});"""
OURS = "a fault of Dovetail; the server's output has the details: please report it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What pages share: what they were started with, and who does the work. Nothing of any user."""

    settings: Settings
    workers: Workers
    searches: Searches


class PageFrame:
    """One page in one browser tab: its heading, and where its state is written."""

    def __init__(self, path: str, query: list[tuple[str, str]]) -> None:
        self._path, self._current = path, "/search" if path == "/study" else path
        said = dict(query).get(THEME, "")
        self.theme = said if said in THEMES else ""
        self.mode: Mode = "dark" if self.theme == "dark" else "light"
        self.on_mode: Callable[[], None] = lambda: None
        self._query = ""
        self._links: dict[str, Any] = {}
        self._refusal: Any = None

    @contextmanager
    def shown(self, title: str, lead: str) -> Iterator[None]:
        """The page, and within it what its caller adds."""
        ui.page_title(f"{title} - Dovetail")
        ui.add_head_html(f"<style>{STYLE}</style><script>{CALM}{BACK}{LOST}</script>")
        self._dark = ui.dark_mode({"light": False, "dark": True}.get(self.theme))
        with box("dv"):
            markup("Skip to the page", "a", "skip").props("href=#page")
            self._heading()
            with box("main", "main", id="page", tabindex="-1"):
                with box("lead"):
                    words(title, "h1")
                    words(lead)
                self._refusal = words("", "div", "refused", role="alert")
                self._refusal.set_visibility(False)
                yield
        ui.context.client.on_connect(self._learn_mode)

    def _heading(self) -> None:
        with box("top", "header"), box(""):
            words("Dovetail", "a", "brand", href="/")
            with box("", "nav", aria_label="Pages"):
                for path, name in PAGES.items():
                    link = words(name, "a", href=path)
                    if path == self._current:
                        link.props["aria-current"] = "page"
                    self._links[path] = link
            with box("theme"):
                words("Colours", "label", "note", for_="theme")
                options = "".join(
                    f'<option value="{own}"{" selected" if own == self.theme else ""}>{said}</option>'
                    for own, said in THEMES.items()
                )
                select = markup(options, "select")
                select.props("id=theme name=theme")
                select.style("width:auto;min-height:2rem;padding:.15rem .4rem;margin-left:.4rem")
                select.on("change", lambda event: self._turn(str(event.args)), js_handler="(e) => emit(e.target.value)")

    async def _learn_mode(self) -> None:
        """Asks the browser which it shows, where it is left to the system."""
        try:
            is_dark = await ui.run_javascript("document.body.classList.contains('body--dark')", timeout=10)
        except TimeoutError:  # the tab was closed meanwhile
            return
        self._set_mode(bool(is_dark))

    def _set_mode(self, is_dark: bool) -> None:
        mode: Mode = "dark" if is_dark else "light"
        if mode != self.mode:
            self.mode = mode
            self.on_mode()

    async def _turn(self, theme: str) -> None:
        if theme not in THEMES:
            return
        self.theme = theme
        self._dark.value = {"light": False, "dark": True}.get(theme)
        self.keep(self._query)
        if theme:
            self._set_mode(theme == "dark")
        else:
            is_dark = await ui.run_javascript("matchMedia('(prefers-color-scheme: dark)').matches")
            self._set_mode(bool(is_dark))

    def address(self, path: str, query: str) -> str:
        """A page with a state, in the colours that were chosen."""
        said = "&".join(filter(None, (query, f"{THEME}={self.theme}" if self.theme else "")))
        return f"{path}?{said}" if said else path

    def keep(self, query: str, *, is_kept: bool = True, is_new: bool = False) -> None:
        """Writes the state into the address, without loading anything; what is new is a step that Back undoes."""
        is_other, self._query = query != self._query, query
        if is_kept and ui.context.client.has_socket_connection:
            how = "pushState" if is_new and is_other else "replaceState"
            address = json.dumps(self.address(self._path, query))
            ui.run_javascript(f"history.{how}(history.state, '', {address}); window.dovetailShows = location.search")

    def carry(self, query: str) -> None:
        """Takes the session along to the other pages."""
        for path in WITH_SESSION:
            self.link(path, query)

    def link(self, path: str, query: str) -> None:
        self._links[path].props["href"] = self.address(path, query)
        self._links[path].update()

    def refuse(self, said: str) -> None:
        """One line, as a command would say it; nothing takes it away."""
        self._refusal.content = escape(said)
        self._refusal.set_visibility(bool(said))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """What is wrong within is said on the page, and what was there stays."""
        try:
            yield
            self.refuse("")
        except DovetailError as error:
            self.refuse(str(error))
        except Exception:
            traceback.print_exc()
            self.refuse(OURS)
