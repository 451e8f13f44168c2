"""An answer as one page that opens anywhere: its tables, a picture, and everything it was asked, with no server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from dovetail.report.record import Record
from dovetail.report.table import Table

STYLE = """
:root { color-scheme: light dark; --line: #8886; --dim: #666; }
@media (prefers-color-scheme: dark) { :root { --dim: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 600; } .r { text-align: right; font-variant-numeric: tabular-nums; }
p.note { color: var(--dim); margin: .3rem 0; } svg { max-width: 100%; height: auto; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .8rem; font-size: .8rem; }
@media print { body { margin: 0; max-width: none; } details { display: none; } }
"""
DOT, WIDE, HIGH, LEFT, BOTTOM = 3.0, 640, 320, 70, 46


def page_html(title: str, tables: Sequence[Table], picture: str, asked: Record, version: str) -> str:
    """The first table is the answer: its title stands at the top."""
    head = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    parts = [head, *_table(tables[0], "h1"), picture]
    for table in tables[1:]:
        parts += _table(table, "h2")
    parts.append(
        f"<details><summary>What was asked</summary><pre>{escape(json.dumps(asked, indent=1))}</pre></details>"
    )
    parts.append(f'<p class="note">Dovetail {escape(version)}</p>')
    return "\n".join(part for part in parts if part) + "\n</body>\n</html>\n"


def _table(table: Table, heading: str) -> Iterator[str]:
    yield f"<{heading}>{escape(table.title)}</{heading}>"
    align = table.align.ljust(len(table.rows[0]) if table.rows else 0, "l")
    if table.rows:
        yield "<table>"
        if table.columns:
            yield _row(table.columns, align, "th")
        yield from (_row(row, align, "td") for row in table.rows)
        yield "</table>"
    yield from (f'<p class="note">{escape(note)}</p>' for note in table.notes)


def _row(cells: Sequence[str], align: str, kind: str) -> str:
    inside = "".join(
        f"<{kind}{' class=r' if way == 'r' else ''}>{escape(cell)}</{kind}>"
        for cell, way in zip(cells, align, strict=False)
    )
    return f"<tr>{inside}</tr>"


def dots_svg(title: str, axes: tuple[str, str], dots: Sequence[tuple[float, float, str]]) -> str:
    """Points with a word each that shows on hovering, the first of them marked; both axes begin at 0."""
    if not dots:
        return ""
    far = [1.1 * max(values) or 1.0 for values in ([dot[0] for dot in dots], [dot[1] for dot in dots])]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE + 20} {HIGH + BOTTOM + 20}" role="img"'
        f' aria-label="{escape(title)}" font-family="sans-serif" font-size="12" fill="currentColor">',
        f"<title>{escape(title)}</title>",
        f'<path d="M{LEFT},10V{HIGH + 10}H{LEFT + WIDE}" fill="none" stroke="currentColor" stroke-opacity=".5"/>',
        f'<text x="{LEFT + WIDE / 2}" y="{HIGH + BOTTOM + 8}" text-anchor="middle">{escape(axes[0])}</text>',
        f'<text x="14" y="{10 + HIGH / 2}" text-anchor="middle" transform="rotate(-90 14 {10 + HIGH / 2})">'
        f"{escape(axes[1])}</text>",
    ]
    for share in (0.25, 0.5, 0.75, 1.0):
        x, y = LEFT + WIDE * share, 10 + HIGH * (1 - share)
        parts.append(f'<text x="{x}" y="{HIGH + 26}" text-anchor="middle">{share * far[0]:.3g}</text>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{share * far[1]:.3g}</text>')
    for index, (across, up, words) in reversed(list(enumerate(dots))):
        x, y = LEFT + WIDE * across / far[0], 10 + HIGH * (1 - up / far[1])
        colour, radius = ("#d55e00", 2 * DOT) if index == 0 else ("#0072b2", DOT)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"><title>{escape(words)}</title></circle>'
        )
    return "\n".join([*parts, "</svg>"])
