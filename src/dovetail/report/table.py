"""Tables as values, and a table as lines of plain text, laid out alike for a terminal, a pipe and a file."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import zip_longest

WIDTH = 80
GAP = 2
MAX_CELL = 46  # longer words are cut, except in the first and the last column, which wrap
MIN_LAST = 20
BAR_WIDTH = 24
BLOCKS = " ▏▎▍▌▋▊▉█"
MIN_WORDS = 4  # a letter and the dots that say that more were cut
FIGURE = re.compile(r"[-+<>=~ ]*[0-9][0-9.,]*(e[-+]?[0-9]+)?( ?[^\s0-9]+)?")  # one number, with a unit or without


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of words under a title, all of one length. `align` has one letter a column, l or r; left out, it is l."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    align: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(row) for row in (*self.rows, *((self.columns,) if self.columns else ()))}
        assert len(lengths) <= 1, f"{self.title}: rows of {sorted(lengths)} cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a laid-out table; `kind` is title, header, row or note."""

    kind: str
    text: str


def lines(table: Table, width: int = WIDTH) -> tuple[Line, ...]:
    """`table` in at most `width` characters: words are cut, not figures; the first column, the last and notes wrap."""
    laid = [Line(kind="title", text=text) for text in _wrapped(_one_line(table.title), width)]
    rows = [tuple(_one_line(cell) for cell in row) for row in table.rows]
    gap, widths = _widths((table.columns, *rows) if table.columns else tuple(rows), width, table.align)
    if table.columns:
        laid += [Line(kind="header", text=text) for text in _row(table.columns, gap, widths, table.align)]
    laid += [Line(kind="row", text=text) for row in rows for text in _row(row, gap, widths, table.align)]
    laid += [Line(kind="note", text=text) for note in table.notes for text in _note(_one_line(note), width)]
    return tuple(laid)


def text_of(tables: tuple[Table, ...], width: int = WIDTH) -> str:
    """Tables one under the other, a blank line between them, as plain text."""
    return "\n".join("".join(f"{line.text}\n" for line in lines(table, width)) for table in tables)


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """`share` (0 to 1) as a bar of block characters, to an eighth of a character; anything above nothing shows."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    return (BLOCKS[8] * (eighths // 8) + BLOCKS[eighths % 8]).rstrip()


def _one_line(cell: str) -> str:
    """Names come from files, and a name may hold anything: what does not print is shown by its code."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cell)


def _cut(cell: str, limit: int) -> str:
    return cell if len(cell) <= limit else cell[: limit - 3] + "..."


def _widths(rows: tuple[tuple[str, ...], ...], width: int, align: str) -> tuple[int, tuple[int, ...]]:
    """The gap between columns and the width of each: closer together where that saves a line from being too long.

    The widest words give way first. Figures stay whole: rather than cut them, lines get longer.
    """
    num_columns = max((len(row) for row in rows), default=0)
    if not num_columns:
        return GAP, ()
    longest = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(num_columns)]
    fixed = tuple(min(length, MAX_CELL) for length in longest[:-1])
    for gap in (GAP, 1):
        left = width - GAP - sum(fixed) - gap * len(fixed)
        if longest[-1] <= left:
            return gap, (*fixed, longest[-1])
    least = [_least(rows, i, align) for i in range(num_columns - 1)]
    last = min(longest[-1], MIN_LAST)
    gap = GAP if sum(least) + GAP * (len(fixed) + 1) + last <= width else 1
    cut = _shrunk(fixed, least, width - GAP - gap * len(fixed) - last)
    return gap, (*cut, max(width - GAP - sum(cut) - gap * len(cut), min(last, MIN_WORDS)))


def _least(rows: tuple[tuple[str, ...], ...], column: int, align: str) -> int:
    """How narrow a column may get: of one set right, as wide as its widest figure."""
    cells = [row[column] for row in rows if column < len(row)]
    figures = [len(cell) for cell in cells if align[column : column + 1] == "r" and FIGURE.fullmatch(cell)]
    return max([min(MIN_WORDS, max(map(len, cells))), *figures])


def _shrunk(widths: tuple[int, ...], least: list[int], room: int) -> tuple[int, ...]:
    """`widths` in `room` characters, the widest that may give way first; more where none may."""
    found = list(widths)
    while sum(found) > room:
        able = [i for i, width in enumerate(found) if width > least[i]]
        if not able:
            break
        found[max(able, key=lambda i: found[i])] -= 1
    return tuple(found)


def _row(row: tuple[str, ...], gap: int, widths: tuple[int, ...], align: str) -> list[str]:
    """One row, with the first and the last column wrapped under themselves."""
    sides = align.ljust(len(widths), "l")
    columns = [[_cut(cell, width)] for cell, width in zip(row, widths, strict=True)]
    if sides[0] == "l":
        columns[0] = _names(row[0], widths[0])
    columns[-1] = _wrapped(row[-1], max(1, widths[-1])) or [""]
    laid = zip_longest(*columns, fillvalue="")
    placed = ([_placed(*cell) for cell in zip(cells, widths, sides, strict=False)] for cells in laid)
    return [(" " * GAP + (" " * gap).join(cells)).rstrip() for cells in placed]


def _names(cell: str, width: int) -> list[str]:
    """A name in the first column: what is too long goes on below, further in than the name begins."""
    indent = " " * (len(cell) - len(cell.lstrip()))
    return _wrapped(cell.lstrip(), max(width, len(indent) + GAP + 1), indent, indent + " " * GAP) or [""]


def _placed(cell: str, width: int, side: str) -> str:
    return cell.rjust(width) if side == "r" else cell.ljust(width)


def _note(note: str, width: int) -> list[str]:
    hang = " " * GAP + ("  " if note.startswith("- ") else "")
    return _wrapped(note, width, " " * GAP, hang)


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
