"""An answer as labelled figures, each said once: its record for JSON and its tables for text and pages follow.

An answer is a series of tables and lists, made of figures and of words around them. Every figure is also in the record,
under its key: so a figure that is added is in JSON, text and page. What has no label is in JSON alone; what is in text
alone has a name, and a test lists these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dovetail.report.plain import Record
from dovetail.report.table import Table

BULLET = "- "


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of an answer: its key in JSON, how it reads as text, and the label of its row or column.

    The key ends in the unit; dots lead into records (`memory.need_bytes`). A key with an index
    (`levers[0].need_bytes`) points to an entry of a list, which has the value. Without a label a figure has no row
    or column of its own. A value that takes long to make may be a function without arguments.
    """

    key: str
    value: Any
    text: str = ""
    label: Part | None = None

    @property
    def is_reference(self) -> bool:
        return "[" in self.key


@dataclass(frozen=True, slots=True)
class TextOnly:
    """What text says and JSON does not, such as a share of two figures or a bar; `name` says which it is."""

    name: str
    text: str
    label: Part | None = None
    align: str = "r"


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words around figures, which take the places of `{}` in turn."""

    template: str
    parts: tuple[Part, ...]
    label: Part | None = None
    align: str = "l"
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A row of several cells, the first of which is its label."""

    cells: tuple[Part, ...]
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences that are a list in JSON and a note each in text."""

    key: str
    lines: tuple[str, ...]
    mark: str = BULLET


Part = Figure | TextOnly | Phrase | str  # a plain string has no figure in it
Entry = Figure | TextOnly | Phrase | FigureRow
Note = Part | Sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """Figures a row each, or with `columns` several; without a title they are in JSON alone."""

    title: Part = ""
    columns: tuple[Part, ...] = ()
    align: str = ""
    rows: tuple[Entry, ...] = ()
    notes: tuple[Note, ...] = ()
    within: str = ""  # the record that it lies in, if not the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureList:
    """Things of one kind: a list of records under `key`, and a row each with a column for every label.

    `figures` says what is known of a thing. `shown` are those that text has room for, if not all.
    """

    key: str
    items: Sequence[Any]
    figures: Callable[[Any], Iterable[Figure | TextOnly | Phrase]] = tuple
    title: Part = ""
    notes: tuple[Note, ...] = ()
    shown: Sequence[Any] | None = None
    within: str = ""


Figures = tuple[FigureTable | FigureList, ...]


def phrase(template: str, *parts: Part, label: Part | None = None, align: str = "l", is_shown: bool = True) -> Phrase:
    return Phrase(template, parts, label, align, is_shown)


def joined(apart: str, parts: Iterable[Part], label: Part | None = None) -> Phrase:
    """Parts one after the other, with `apart` between them."""
    all_parts = tuple(parts)
    return Phrase(apart.join("{}" for _ in all_parts), all_parts, label)


def labelled(key: str, text: str, label: Part | None = None) -> Figure:
    """A figure that is words: it reads as it is."""
    return Figure(key, text, text, label)


def part_text(part: Part) -> str:
    if isinstance(part, Phrase):
        return part.template.format(*map(part_text, part.parts))
    return part if isinstance(part, str) else part.text


def under(key: str, answer: Figures) -> Figures:
    """An answer as a part of another: its record lies under `key`."""
    return tuple(replace(table, within=f"{key}.{table.within}" if table.within else key) for table in answer)


def hidden(answer: Figures) -> Figures:
    """An answer in JSON alone."""
    return tuple(replace(table, title="", notes=(table.title, *table.notes)) for table in answer)


def figures_in(parts: Iterable[Note | FigureRow]) -> Iterator[Figure]:
    """Every figure in them, however deep, but for those in labels."""
    for part in parts:
        if isinstance(part, Figure):
            yield part
        elif isinstance(part, Phrase):
            yield from figures_in(part.parts)
        elif isinstance(part, FigureRow):
            yield from figures_in(part.cells)
        elif isinstance(part, Sentences):
            yield Figure(part.key, list(part.lines))


def labels_of(entries: Iterable[Entry]) -> Iterator[Part]:
    """The labels of those that have a row or a column of their own."""
    for entry in entries:
        if not isinstance(entry, FigureRow) and _has_place(entry):
            yield entry.label or ""


def record_of(answer: Figures) -> Record:
    """The answer as plain data for JSON, in the order of its figures."""
    record: Record = {}
    for table in answer:
        place = _record_at(record, table.within.split(".") if table.within else ())
        if isinstance(table, FigureList):
            _put(place, table.key, [entries_record(table.figures(item)) for item in table.items])
            entries = tuple(table.figures(table.items[0])) if table.items else ()
            _put_all(place, figures_in((table.title, *labels_of(entries), *table.notes)))
        else:
            _put_all(
                place, figures_in((table.title, *table.columns, *table.rows, *labels_of(table.rows), *table.notes))
            )
    return record


def entries_record(entries: Iterable[Entry]) -> Record:
    """Figures as one record."""
    record: Record = {}
    _put_all(record, figures_in(entries))
    return record


def _put_all(record: Record, figures: Iterable[Figure]) -> None:
    for figure in figures:
        if not figure.is_reference:
            _put(record, figure.key, figure.value() if callable(figure.value) else figure.value)


def _record_at(record: Record, keys: Sequence[str]) -> Record:
    """The record at a path, made where there is none; an index is a place in a list of records."""
    for key in keys:
        name, _, index = key.removesuffix("]").partition("[")
        if index:
            items = record.setdefault(name, [])
            items += ({} for _ in range(int(index) + 1 - len(items)))
            record = items[int(index)]
        else:
            record = record.setdefault(name, {})
    return record


def _put(record: Record, key: str, value: Any) -> None:
    """A figure may be said in several places, and then says the same."""
    *path, last = key.split(".")
    _put_item(_record_at(record, path), last, value)


def _put_item(record: Record, name: str, value: Any) -> None:
    if isinstance(value, dict):
        own = record.setdefault(name, {})
        for each, item in value.items():
            _put_item(own, each, item)
    else:
        assert record.setdefault(name, value) == value, f"{name} is {record[name]} and {value}"


def tables_of(answer: Figures) -> tuple[Table, ...]:
    """The answer as tables, for text and pages: those tables that have a title."""
    return tuple(table_of(table) for table in answer if table.title)


def table_of(table: FigureTable | FigureList) -> Table:
    if isinstance(table, FigureList):
        return _list_table(table)
    return Table(
        title=part_text(table.title),
        columns=tuple(map(part_text, table.columns)),
        rows=tuple(_row_cells(table.rows)),
        align=table.align,
        notes=tuple(_note_lines(table.notes)),
    )


def _row_cells(entries: Iterable[Entry]) -> Iterator[tuple[str, ...]]:
    for entry in entries:
        if isinstance(entry, FigureRow):
            if entry.is_shown:
                yield tuple(map(part_text, entry.cells))
        elif _has_place(entry):
            yield part_text(entry.label or ""), part_text(entry)


def _has_place(entry: Figure | TextOnly | Phrase) -> bool:
    return entry.label is not None and not (isinstance(entry, Phrase) and not entry.is_shown)


def _list_table(listed: FigureList) -> Table:
    shown = listed.items if listed.shown is None else listed.shown
    rows = [[entry for entry in listed.figures(item) if _has_place(entry)] for item in shown]
    columns = rows[0] if rows else []
    return Table(
        title=part_text(listed.title),
        columns=tuple(part_text(entry.label or "") for entry in columns),
        rows=tuple(tuple(map(part_text, row)) for row in rows),
        align="".join(_side(entry) for entry in columns),
        notes=tuple(_note_lines(listed.notes)),
    )


def _side(entry: Figure | TextOnly | Phrase) -> str:
    """Numbers are set right."""
    if not isinstance(entry, Figure):
        return entry.align
    return "r" if isinstance(entry.value, int | float) and not isinstance(entry.value, bool) else "l"


def _note_lines(notes: Iterable[Note]) -> Iterator[str]:
    for note in notes:
        if isinstance(note, Sentences):
            yield from (f"{note.mark}{line}" for line in note.lines)
        else:
            yield part_text(note)
