"""Rows of a damaged store that are whole, into a new one.

Through SQLite as far as it goes, which also has what lies beside the file, and then page by page.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.search.space import Point
from dovetail.store.faults import FAULTS
from dovetail.store.file import readable_anyway, writable
from dovetail.store.pages import records
from dovetail.store.rows import COLUMNS, DamagedRow, scored_rows, seed_of
from dovetail.store.shapes import MalformedRow, figure_names_of, inputs_of
from dovetail.store.study import Store, key_of

Facts = tuple[str, str, str, str, str]
NUM_OF_STUDY, NUM_OF_POINT = 9, 6  # columns of the two tables
MOST_INTEGER = 2**63  # of SQLite; a damaged page may seem to hold more


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """What became of one study; `num_rows` were written once."""

    key: str
    kind: str
    num_rows: int
    num_saved: int


@dataclass(frozen=True, slots=True)
class _Whole:
    """What was read of one study."""

    facts: Facts
    num_rows: int
    found: dict[Point, Scored]


def rescue(path: Path, to: Path) -> tuple[Rescued, ...]:
    """Writes what can be read of each study of `path`, and is what was written, to the new store `to`."""
    if to.exists():
        raise InvalidInput(f"rows are saved to a new file, and {to} exists; name another", "--rescue")
    if not to.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(to.parent)!r} to save rows in; name a file elsewhere", "--rescue")
    whole = _whole(path)
    if not whole:
        message = f"nothing of {path} can be saved: no study in it is whole, and rows mean nothing without theirs"
        raise InvalidInput(f"{message}; put back a copy of it, or start again with another file", "store")
    try:
        with writable(to) as new:
            return tuple(_written(Store(new, to), one) for one in whole)
    except BaseException:
        for ending in ("", "-wal", "-shm"):  # half of a store is no use
            to.with_name(to.name + ending).unlink(missing_ok=True)
        raise


def _written(store: Store, one: _Whole) -> Rescued:
    store.adopt(*one.facts).keep(one.found.values())
    key, kind, *_ = one.facts
    return Rescued(key=key, kind=kind, num_rows=one.num_rows, num_saved=len(one.found))


def _whole(path: Path) -> list[_Whole]:
    """Studies that are what was written, with their rows that are, in the order they were begun."""
    with closing(readable_anyway(path)) as link:
        by_page = list(records(path))
        known: dict[int, _Whole] = {}
        for number, num_rows, facts in (*_studies(link), *_studies_by_page(by_page)):
            same = known.get(number)
            if same is None or (same.facts == facts and same.num_rows < num_rows):  # a page given up has fewer
                known[number] = _Whole(facts, num_rows, {})
        for number, one in known.items():
            for order in ("ASC", "DESC"):
                one.found.update((row.point, row) for row in _rows(link, number, seed_of(one.facts[0]), order))
    for _, values in by_page:
        if len(values) == NUM_OF_POINT and values[0] in known:
            one = known[values[0]]
            one.found.update((row.point, row) for row in _row_by_page(values, seed_of(one.facts[0])))
    return [_whole_rows(known[number]) for number in sorted(known)]


def _whole_rows(one: _Whole) -> _Whole:
    """Without rows that have more figures than there are names for them."""
    num_figures = len(figure_names_of(one.facts[-1]))
    return replace(one, found={point: row for point, row in one.found.items() if len(row.also) <= num_figures})


def _studies(link: sqlite3.Connection) -> Iterator[tuple[int, int, Facts]]:
    """Those that SQLite reads and are what was written: number, rows, and facts."""
    with suppress(*FAULTS):
        link.execute("PRAGMA writable_schema = 1")  # else a file shorter than it says is not read at all
        for row in link.execute("SELECT id, num_rows, key, kind, model, inputs, figure_names FROM studies"):
            number, num_rows, *facts = row
            yield from _checked(number, num_rows, facts)


def _studies_by_page(by_page: list[tuple[int, tuple[Any, ...]]]) -> Iterator[tuple[int, int, Facts]]:
    for number, values in by_page:
        if len(values) == NUM_OF_STUDY:
            _, *facts, num_rows, _, _ = values
            yield from _checked(number, num_rows, facts)


def _checked(number: Any, num_rows: Any, facts: list[Any]) -> Iterator[tuple[int, int, Facts]]:
    key, kind, model, text, names = facts
    with suppress(TypeError, AttributeError, ValueError, OverflowError, MalformedRow):
        if abs(int(number)) < MOST_INTEGER and key_of(kind, model, names, text) == key:
            inputs_of(text)
            figure_names_of(names)
            yield int(number), int(num_rows), (key, kind, model, text, names)


def _rows(link: sqlite3.Connection, number: int, seed: int, order: str) -> Iterator[Scored]:
    """Rows from one end up to the first page that cannot be read, without those that are not what was written."""
    with suppress(*FAULTS):
        for row in link.execute(f"SELECT {COLUMNS} FROM points WHERE study = ? ORDER BY point {order}", (number,)):
            with suppress(DamagedRow):
                yield from scored_rows([row], seed)


def _row_by_page(values: tuple[Any, ...], seed: int) -> Iterator[Scored]:
    _, point, loss, numbers, bottleneck, plan = values
    with suppress(DamagedRow, TypeError, AttributeError, ValueError, OverflowError):
        shown = None if loss is None else float(loss)  # SQLite keeps a whole one as an integer
        yield from scored_rows([(point, shown, numbers, bottleneck, plan)], seed)
