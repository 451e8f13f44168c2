"""Tables of a page: as the terminal shows them, with headings that a screen reader reads out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape

from dovetail.report.table import BLOCKS, Table

CODE = re.compile(r"`([^`]+)`")
LONG = 28  # characters of a cell that is read as a sentence and may be broken; a shorter one stays on its line
LONG_LABEL = 18  # of a cell that names its row


def table_html(table: Table, *, is_titled: bool) -> Iterator[str]:
    """The table in a box that scrolls sideways where the page is narrow, and its notes under it."""
    if is_titled:
        yield f"<h3>{escape(table.title)}</h3>"  # no caption: that would scroll away with a wide table
    if table.rows:
        table = without_bars(table)
        align = table.align.ljust(len(table.rows[0]), "l")
        yield f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title)}">\n<table>'
        if table.columns:
            yield f"<thead>{_row(table.columns, align, is_head=True)}</thead>"
        yield "<tbody>"
        yield from (_row(row, align, is_head=False) for row in table.rows)
        yield "</tbody></table></div>"
    yield from notes_html(table.notes)


def without_bars(table: Table) -> Table:
    """`table` without columns that are bars of block characters: a terminal has no other picture, a page has charts."""
    signs = BLOCKS + "·"
    kept = [
        place
        for place in range(len(table.rows[0]))
        if not any(row[place].strip() for row in table.rows) or any(row[place].strip(signs) for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept) if table.columns else (),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
        align="".join(table.align.ljust(len(table.rows[0]), "l")[place] for place in kept),
    )


def sentence_html(text: str) -> str:
    """`text` escaped, and what stands between backticks as code."""
    return CODE.sub(r"<code>\1</code>", escape(text))


def notes_html(notes: Sequence[str]) -> Iterator[str]:
    """Sentences one under the other; those that begin with a dash as a list."""
    listed = [note[2:] for note in notes if note.startswith("- ")]
    yield from (f'<p class="note">{sentence_html(note)}</p>' for note in notes if not note.startswith("- "))
    if listed:
        yield "<ul>"
        yield from (f"<li>{sentence_html(note)}</li>" for note in listed)
        yield "</ul>"


def _row(cells: Sequence[str], align: str, *, is_head: bool) -> str:
    inside = "".join(
        _cell(cell, side, is_head=is_head, is_first=index == 0)
        for index, (cell, side) in enumerate(zip(cells, align, strict=False))
    )
    return f"<tr>{inside}</tr>"


def _cell(cell: str, side: str, *, is_head: bool, is_first: bool) -> str:
    kind, scope = ("th", "col") if is_head else ("th", "row") if is_first else ("td", "")
    if not cell.strip():
        return "<td></td>"
    classes = ["r"] if side == "r" else []
    classes += ["in"] if is_first and cell.startswith(" ") else []
    classes += ["long"] if not is_head and len(cell) > (LONG_LABEL if is_first else LONG) else []
    said = (f' scope="{scope}"' if scope else "") + (f' class="{" ".join(classes)}"' if classes else "")
    return f"<{kind}{said}>{sentence_html(cell.strip())}</{kind}>"
