"""An answer as one page that opens anywhere: words, charts and tables, with no server and nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from dovetail.report.charts.chart import Chart, box_style
from dovetail.report.charts.themes import template
from dovetail.report.page_script import SCRIPT
from dovetail.report.page_style import STYLE
from dovetail.report.page_tables import notes_html, table_html
from dovetail.report.plain import Record
from dovetail.report.table import Table

MAX_CHARACTERS = 250_000  # of an answer as JSON: a page beyond some MB is slow to open, and --json has it all
# Nothing is fetched and no script runs but the two whose hashes follow; Plotly sets styles of what it draws.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none';"
    " script-src {hashes}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A figure that one looks for first: what it is, the figure, and a few words beside it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page under a heading: sentences, then charts, tables, and what one would copy."""

    title: str
    sentences: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What an answer comes to on a page: a title, the answer in a sentence, the key figures, and sections."""

    title: str
    sentence: str
    cards: tuple[Card, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(chart for section in self.sections for chart in section.charts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What one needs to get the answer again: the command, what it read as it was understood, and versions."""

    command: str
    versions: tuple[tuple[str, str], ...]
    inputs: Record = field(default_factory=dict)
    answer: Record = field(default_factory=dict)


def page_html(page: Page, provenance: Provenance, library: str) -> str:
    """`page` as one file. `library` is the text of plotly.min.js; it is included once, and only where there is a chart.

    Whatever comes from the user is escaped; the page's own policy forbids the network.
    """
    names = [chart.name for chart in page.charts]
    assert len(set(names)) == len(names), f"charts of one page have names of their own; got {names}"
    scripts = (library, SCRIPT) if names else ()
    return "\n".join(
        [
            *_head(page.title, scripts),
            "<body>",
            *_header(page),
            "<main>",
            *(part for index, section in enumerate(page.sections) for part in _section(section, index)),
            *_provenance(provenance),
            "</main>",
            f"<footer><p>Made by Dovetail {escape(dict(provenance.versions).get('dovetail', ''))}.</p></footer>",
            *([_data("themes", {mode: template(mode) for mode in ("light", "dark")})] if names else []),
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def _head(title: str, scripts: Sequence[str]) -> Iterator[str]:
    policy = POLICY.format(hashes=" ".join(map(_hash, scripts)) or "'none'")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>"


def _hash(script: str) -> str:
    """As a content security policy names an inline script that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _header(page: Page) -> Iterator[str]:
    yield f'<header>\n<p class="kind">Dovetail report</p>\n<h1>{escape(page.title)}</h1>'
    yield f'<p class="lead">{escape(page.sentence)}</p>'
    if page.cards:
        yield '<dl class="cards">'
        yield from map(_card, page.cards)
        yield "</dl>"
    yield '<nav aria-label="Contents"><ul>'
    for index, section in enumerate(page.sections):
        yield f'<li><a href="#s{index}">{escape(section.title)}</a></li>'
    yield '<li><a href="#again">To get this again</a></li></ul></nav>\n</header>'


def _card(card: Card) -> str:
    note = f'<span class="note">{escape(card.note)}</span>' if card.note else ""
    return f"<div><dt>{escape(card.label)}</dt><dd><strong>{escape(card.value)}</strong>{note}</dd></div>"


def _section(section: Section, index: int) -> Iterator[str]:
    yield f'<section id="s{index}" aria-labelledby="s{index}-title">'
    yield f'<h2 id="s{index}-title">{escape(section.title)}</h2>'
    yield from notes_html(section.sentences)
    for chart in section.charts:
        yield from _chart(chart, is_titled=chart.title != section.title)
    for table in section.tables:
        yield from table_html(table, is_titled=table.title != section.title)
    if section.code:
        yield f'<pre tabindex="0" aria-label="{escape(section.title)}"><code>{escape(section.code)}</code></pre>'
    yield "</section>"


def _chart(chart: Chart, *, is_titled: bool) -> Iterator[str]:
    yield f'<figure id="{chart.name}">'
    if is_titled:
        yield f"<h3>{escape(chart.title)}</h3>"
    label = escape(f"{chart.title}. {chart.alt}")
    yield f'<div class="chart" role="img" aria-label="{label}" data-chart="{chart.name}-data"'
    yield f' style="{box_style(chart.figure)}"></div>'
    yield f"<figcaption>{escape(chart.alt)}</figcaption>"
    yield "<details><summary>The numbers as a table</summary>"
    yield from table_html(chart.table, is_titled=True)
    yield "</details>"
    yield _data(f"{chart.name}-data", chart.figure)
    yield "</figure>"


def _data(name: str, value: object) -> str:
    """`value` for the page's script; no word of it can end the element, or begin another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _provenance(provenance: Provenance) -> Iterator[str]:
    yield '<section id="again" aria-labelledby="again-title">\n<h2 id="again-title">To get this again</h2>'
    yield f'<pre tabindex="0" aria-label="Command"><code>{escape(provenance.command)}</code></pre>'
    yield from table_html(Table(title="Versions", rows=provenance.versions), is_titled=True)
    for title, value in (("Inputs, as they were understood", provenance.inputs), ("The answer", provenance.answer)):
        if not value:
            continue
        text = escape(json.dumps(value, indent=1, allow_nan=False), quote=False)
        if len(text) > MAX_CHARACTERS:
            message = f"{len(text):,} characters as JSON, too long for a page; --json prints it"
            yield f'<p class="note">{title}: {message}.</p>'
            continue
        yield f'<details><summary>{title}, as JSON</summary><pre tabindex="0" aria-label="{title}"><code>'
        yield f"{text}</code></pre></details>"
    yield "</section>"
