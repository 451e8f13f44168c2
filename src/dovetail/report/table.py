"""Tables as values, and a table as lines of plain text, laid out alike for a terminal, a pipe and a file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

WIDTH = 80
GAP = 2
MAX_CELL = 46  # longer cells wrap
MIN_LAST = 20
BAR_WIDTH = 24
BLOCKS = " ▏▎▍▌▋▊▉█"
MIN_BAR = 6
BARS = re.compile(f"[{BLOCKS[1:]}]+")
PIECE = re.compile(r"[^-_./]*[-_./]+|[^-_./]+")  # where a name may be broken
GLUE = "\x00"  # prints nowhere, so it is in no cell
FIGURE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[numkMGTP]?(?:s|W|J|B|FLOP|iB)|[KMGT]iB)(?:\W|$))")  # a figure and its unit


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
    """`table` in at most `width` characters: cells and headings wrap between words, and bars get shorter.

    Where even that is too wide, rows and columns change places, or each row becomes a short list. Nothing is cut.
    """
    laid = [Line(kind="title", text=text) for text in _wrapped(_one_line(table.title), width)]
    rows = [tuple(_one_line(cell) for cell in row) for row in table.rows]
    found = _widths(table.columns, rows, width)
    if found is None:
        laid += _turned(table.columns, rows, width) or _listed(table.columns, rows, width)
    else:
        gap, widths = found
        rows = _shorter_bars(rows, widths)
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


def _widths(columns: tuple[str, ...], rows: list[tuple[str, ...]], width: int) -> tuple[int, tuple[int, ...]] | None:
    """The gap between columns and the width of each; None where no widths do.

    Columns stand closer where that saves a line from being too long, then the widest words give way first. Words stay
    whole, then names are broken at their hyphens and dots.
    """
    every = [columns, *rows] if columns else rows
    num_columns = max((len(row) for row in every), default=0)
    if not num_columns:
        return GAP, ()
    natural = [max(len(row[i]) for row in every) for i in range(num_columns)]
    fixed = tuple(min(length, MAX_CELL) for length in natural[:-1])
    is_whole = all(length <= MAX_CELL for length in natural[1:-1])
    for gap in (GAP, 1):
        left = width - GAP - sum(fixed) - gap * len(fixed)
        if is_whole and natural[-1] <= left:
            return gap, (*fixed, natural[-1])
    for longest in (_longest_word, _longest_piece):
        least = [_least(every, i, longest) for i in range(num_columns)]
        for gap, last in ((GAP, MIN_LAST), (GAP, 0), (1, 0)):
            end = max(min(natural[-1], last), least[-1])
            room = width - GAP - gap * len(fixed) - end
            if sum(least[:-1]) <= room:
                cut = _shrunk(fixed, least, room)
                return gap, (*cut, end + room - sum(cut))
    return None


def _least(rows: Sequence[tuple[str, ...]], column: int, longest: Callable[[str], int]) -> int:
    """How narrow a column may get; bars may get short."""
    cells = [row[column] for row in rows]
    return max(min(len(cell), MIN_BAR) if BARS.fullmatch(cell) else longest(cell) for cell in cells)


def _longest_word(cell: str) -> int:
    indent = len(cell) - len(cell.lstrip())
    return indent + max(map(len, _words(cell)), default=0)


def _longest_piece(cell: str) -> int:
    indent = len(cell) - len(cell.lstrip())
    return indent + max((len(piece) for word in _words(cell) for piece in PIECE.findall(word)), default=0)


def _words(cell: str) -> list[str]:
    """Words of a cell, a figure and its unit being one."""
    return [word.replace(GLUE, " ") for word in FIGURE_UNIT.sub(GLUE, cell).split()]


def _shrunk(widths: tuple[int, ...], least: list[int], room: int) -> tuple[int, ...]:
    """`widths` in `room` characters, the widest that may give way first."""
    found = list(widths)
    while sum(found) > room:
        able = [i for i, width in enumerate(found) if width > least[i]]
        found[max(able, key=lambda i: found[i])] -= 1
    return tuple(found)


def _row(row: tuple[str, ...], gap: int, widths: tuple[int, ...], align: str) -> list[str]:
    """One row, with every column wrapped under itself."""
    sides = align.ljust(len(widths), "l")
    columns = [_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
    if sides[0] == "l":
        columns[0] = _cell(row[0], widths[0], GAP)
    laid = zip_longest(*columns, fillvalue="")
    placed = ([_placed(*cell) for cell in zip(cells, widths, sides, strict=False)] for cells in laid)
    return [(" " * GAP + (" " * gap).join(cells)).rstrip() for cells in placed]


def _shorter_bars(rows: list[tuple[str, ...]], widths: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Bars drawn to the room that their columns have, all of a column alike."""
    longest = [max((len(row[i]) for row in rows if BARS.fullmatch(row[i])), default=0) for i in range(len(widths))]
    return [
        tuple(
            cell[: max(1, len(cell) * width // most)] if most > width and BARS.fullmatch(cell) else cell
            for cell, width, most in zip(row, widths, longest, strict=True)
        )
        for row in rows
    ]


def _cell(cell: str, width: int, hang: int = 0) -> list[str]:
    """A cell on lines of its own: what is too long goes on below, `hang` further in where there is room for that."""
    if len(cell) <= width:
        return [cell]
    indent = cell[: len(cell) - len(cell.lstrip())]
    found = [indent]
    for word in _words(cell):
        for piece in (word,) if len(indent + word) <= width else PIECE.findall(word):
            is_new = piece is word or word.startswith(piece)
            apart = " " if found[-1].strip() and is_new else ""
            if len(found[-1] + apart + piece) > width and found[-1].strip():
                further = " " * hang if len(indent) + hang + len(piece) <= width else ""
                found.append(indent + further + piece)
            else:
                found[-1] += apart + piece
    return [part[i : i + width] for part in found for i in range(0, len(part), width)] or [""]


def _turned(columns: tuple[str, ...], rows: list[tuple[str, ...]], width: int) -> list[Line]:
    """A row for every column and a column for every row, where that fits and there are headings; else nothing."""
    turned = list(zip(columns, *rows, strict=True)) if columns else []
    turned = [row for row in turned if row[0] or not all(BARS.fullmatch(cell) or not cell for cell in row)]
    widths = tuple(max(len(row[i]) for row in turned) for i in range(len(rows) + 1)) if turned else ()
    if not widths or sum(widths) + GAP * len(widths) > width:
        return []
    align = "l" + "r" * len(rows)
    [head, *others] = [text for row in turned for text in _row(row, GAP, widths, align)]
    return [Line(kind="header", text=head), *(Line(kind="row", text=text) for text in others)]


def _listed(columns: tuple[str, ...], rows: list[tuple[str, ...]], width: int) -> list[Line]:
    """Rows that are too wide for a table: the first cell, then the others under it with their headings."""
    laid = []
    for row in rows:
        laid += [Line(kind="row", text=text) for text in _wrapped(row[0], width, " " * GAP, " " * (2 * GAP))]
        for name, cell in zip(columns[1:] or ("",) * len(row[1:]), row[1:], strict=True):
            if cell and not BARS.fullmatch(cell):
                said = f"{name}: {cell}" if name else cell
                wrapped = _wrapped(said, width, " " * (2 * GAP), " " * (3 * GAP))
                laid += [Line(kind="row", text=text) for text in wrapped]
    return laid


def _placed(cell: str, width: int, side: str) -> str:
    return cell.rjust(width) if side == "r" else cell.ljust(width)


def _note(note: str, width: int) -> list[str]:
    hang = " " * GAP + ("  " if note.startswith("- ") else "")
    return _wrapped(note, width, " " * GAP, hang)


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
