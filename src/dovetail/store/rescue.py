"""Rows of a damaged store that are whole, into a new one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store.faults import fault
from dovetail.store.file import readable_anyway, writable
from dovetail.store.rows import COLUMNS, DamagedRow, scored_rows, seed_of
from dovetail.store.study import Store, key_of

Facts = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """What became of one study; `num_rows` were written once."""

    key: str
    kind: str
    num_rows: int
    num_saved: int


def rescue(path: Path, to: Path) -> tuple[Rescued, ...]:
    """Writes what can be read of each study of `path`, and is what was written, to the new store `to`."""
    if to.exists():
        raise InvalidInput(f"rows are saved to a new file, and {to} is there; name another", "--rescue")
    try:
        with closing(readable_anyway(path)) as link, writable(to) as new:
            return tuple(_rescued(link, row, Store(new, to)) for row in _studies(link))
    except sqlite3.Error as error:
        raise fault(error, path) from None


def _studies(link: sqlite3.Connection) -> Iterator[tuple[int, int, Facts]]:
    """Those that can be read and are what was written: number, rows, and facts."""
    found = link.execute("SELECT id, num_rows, key, kind, model, inputs, figure_names FROM studies")
    with suppress(sqlite3.DatabaseError):
        for number, num_rows, *facts in found:
            key, kind, model, text, names = facts
            with suppress(TypeError, AttributeError):
                if key_of(kind, model, names, text) == key:
                    yield number, num_rows, (key, kind, model, text, names)


def _rescued(link: sqlite3.Connection, row: tuple[int, int, Facts], store: Store) -> Rescued:
    number, num_rows, facts = row
    key, kind, *_ = facts
    found = {one.point: one for order in ("ASC", "DESC") for one in _whole(link, number, seed_of(key), order)}
    store.adopt(*facts).keep(found.values())
    return Rescued(key=key, kind=kind, num_rows=num_rows, num_saved=len(found))


def _whole(link: sqlite3.Connection, number: int, seed: int, order: str) -> Iterator[Scored]:
    """Rows from one end up to the first page that cannot be read, without those that are not what was written."""
    found = link.execute(f"SELECT {COLUMNS} FROM points WHERE study = ? ORDER BY point {order}", (number,))
    with suppress(sqlite3.DatabaseError):
        for row in found:
            with suppress(DamagedRow):
                yield from scored_rows([row], seed)
