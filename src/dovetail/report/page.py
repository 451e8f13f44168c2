"""An answer as one page that opens anywhere: words, charts and tables, with no server and nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from dovetail.report.charts.chart import Chart
from dovetail.report.charts.scales import letters
from dovetail.report.charts.svg import SWATCH_PX, WIDE_PX, inline_svg, legend_of
from dovetail.report.page_script import SCRIPT
from dovetail.report.page_style import STYLE
from dovetail.report.page_tables import notes_html, sentence_html, table_html
from dovetail.report.plain import Record
from dovetail.report.table import Table

MAX_CHARACTERS = 250_000  # of an answer as JSON: a page beyond some MB is slow to open, and --json has it all
NARROW_PX = 350  # of a telephone, between its margins
MOST_TWICE = 60_000  # characters of a drawing that a page has twice, wide and narrow; a larger one scrolls sideways
SCROLLED = ' tabindex="0"'  # what scrolls can be reached by keyboard
# Nothing is fetched and no script runs but the one whose hash follows.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; script-src {hashes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A figure that one looks for first: what it is, the figure, and a few words beside it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page under a heading: sentences, then charts, tables, and what one would copy.

    One that `is_folded` is there for who wants to know more: it opens when its heading is pressed.
    """

    title: str
    sentences: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    code: str = ""
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer as a story: a title, the answer in a sentence, the key figures, what was asked, and sections.

    `asked` are pairs of words: the models, the cluster, limits. Sections tell the answer, why, how sure it is and what
    else was considered, in this order; what proves it is folded.
    """

    title: str
    sentence: str
    cards: tuple[Card, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
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


def page_html(page: Page, provenance: Provenance) -> str:
    """`page` as one file, its charts drawn in it; a small script shows what one points at.

    Whatever comes from the user is escaped; the page's own policy forbids the network.
    """
    names = [chart.name for chart in page.charts]
    assert len(set(names)) == len(names), f"charts of one page have names of their own; got {names}"
    scripts = (SCRIPT,) if names else ()
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
    yield f'<p class="lead">{sentence_html(page.sentence)}</p>'
    if page.cards:
        yield '<dl class="cards">'
        yield from map(_card, page.cards)
        yield "</dl>"
    if page.asked:
        yield '<section class="asked" aria-labelledby="asked-title">\n<h2 id="asked-title">What was asked</h2>\n<dl>'
        for label, words in page.asked:
            yield f"<div><dt>{escape(label)}</dt><dd>{sentence_html(words)}</dd></div>"
        yield "</dl></section>"
    yield '<nav aria-label="Contents"><ul>'
    for index, section in enumerate(page.sections):
        yield f'<li><a href="#s{index}">{escape(section.title)}</a></li>'
    yield '<li><a href="#again">To get this again</a></li></ul></nav>\n</header>'


def _card(card: Card) -> str:
    note = f'<span class="note">{sentence_html(card.note)}</span>' if card.note else ""
    return f"<div><dt>{escape(card.label)}</dt><dd><strong>{escape(card.value)}</strong>{note}</dd></div>"


def _section(section: Section, index: int) -> Iterator[str]:
    yield f'<section id="s{index}" aria-labelledby="s{index}-title">'
    heading = f'<h2 id="s{index}-title">{escape(section.title)}</h2>'
    yield f'<details class="fold"><summary>{heading}</summary>' if section.is_folded else heading
    yield from notes_html(section.sentences)
    for chart in section.charts:
        yield from _chart(chart, is_titled=chart.title != section.title)
    for table in section.tables:
        yield from table_html(table, is_titled=table.title != section.title)
    if section.code:
        yield f'<pre tabindex="0" aria-label="{escape(section.title)}"><code>{escape(section.code)}</code></pre>'
    yield "</details></section>" if section.is_folded else "</section>"


def _chart(chart: Chart, *, is_titled: bool) -> Iterator[str]:
    yield f'<figure id="{chart.name}">'
    if is_titled:
        yield f"<h3>{escape(chart.title)}</h3>"
    yield from _legend(chart)
    label = escape(f"{chart.title}. {chart.alt}")
    wide = inline_svg(chart.figure, name=chart.name, width_px=WIDE_PX)
    is_twice = len(wide) <= MOST_TWICE
    kinds = [("wide", wide)]
    kinds += [("narrow", inline_svg(chart.figure, name=f"{chart.name}-n", width_px=NARROW_PX))] if is_twice else []
    yield f'<div class="chart{"" if is_twice else " scrolls"}" data-chart="{chart.name}"'
    yield f' role="img" aria-label="{label}"{"" if is_twice else SCROLLED}>'
    yield from (f'<div class="{kind}">{svg}</div>' for kind, svg in kinds)
    yield "</div>"
    yield f"<figcaption>{sentence_html(chart.alt)}</figcaption>"
    yield '<div class="more"><details><summary>The numbers as a table</summary>'
    yield from table_html(chart.table, is_titled=True)
    yield f'</details><button type="button" data-save="{chart.name}">Save as SVG</button></div>'
    yield "</figure>"


def _legend(chart: Chart) -> Iterator[str]:
    """Above the drawing; a press shows or hides what an entry names."""
    entries = legend_of(chart.figure, chart.name)
    if not entries:
        return
    yield '<div class="legend">'
    for entry in entries:
        swatch = (
            f'<svg class="dv-chart" width="{SWATCH_PX}" height="{SWATCH_PX}" aria-hidden="true">{entry.swatch}</svg>'
        )
        words = escape(" ".join(letters(entry.label)))
        if entry.places:
            places = " ".join(map(str, entry.places))
            yield f'<button type="button" aria-pressed="true" data-of="{chart.name}" data-places="{places}">{swatch}{words}</button>'
        else:
            yield f"<span>{swatch}{words}</span>"
    yield "</div>"


def _provenance(provenance: Provenance) -> Iterator[str]:
    yield '<section id="again" aria-labelledby="again-title">\n<h2 id="again-title">To get this again</h2>'
    if provenance.command:
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
