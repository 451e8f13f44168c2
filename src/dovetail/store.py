"""Everything a search has evaluated, in one SQLite file: kept at once, found again, never mixed with other numbers.

A study is known by the hash of all its inputs and of the model that evaluates them, so a changed input or a newer
Dovetail starts a new one. Rows are written in write-ahead mode, a transaction for each batch: a process killed at any
moment loses nothing it was told, and several may work on one file.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dovetail
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.search.space import Point

FORMAT = 1  # of the tables; a file of another is refused
WAIT_S = 30.0  # for another process that is writing
PHYSICS = ("workload", "hardware", "plan", "cost", "network", "schedule", "search")  # what numbers follow from
_TABLES = (
    """CREATE TABLE IF NOT EXISTS studies (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, inputs TEXT NOT NULL,
    started TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))""",
    """CREATE TABLE IF NOT EXISTS points (
    study INTEGER NOT NULL REFERENCES studies (id), point TEXT NOT NULL, loss REAL, excess_frac REAL NOT NULL,
    also TEXT NOT NULL, short_of TEXT NOT NULL, PRIMARY KEY (study, point)) WITHOUT ROWID""",
)


@cache
def model_version() -> str:
    """The version, and a hash of the source that predictions follow from: two with the same one agree."""
    root, digest = Path(dovetail.__file__).parent, hashlib.sha256()
    for layer in PHYSICS:
        for file in sorted((root / layer).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    for name in ("evaluate.py", "units.py"):
        digest.update((root / name).read_bytes())
    return f"{dovetail.__version__}+{digest.hexdigest()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """A study as a list shows it."""

    key: str
    kind: str
    model: str
    inputs: dict[str, Any]
    started: str
    num_points: int


class Study:
    """What has been evaluated of one question."""

    def __init__(self, link: sqlite3.Connection, row: int) -> None:
        self._link, self._row = link, row

    def known(self) -> dict[Point, Scored]:
        """All that is kept, by point."""
        query = "SELECT point, loss, excess_frac, also, short_of FROM points WHERE study = ?"
        return {one.point: one for one in (_scored(*columns) for columns in self._link.execute(query, (self._row,)))}

    def keep(self, found: Iterable[Scored]) -> None:
        """Writes them down, all or none; one that is there already stays."""
        rows = [
            (
                self._row,
                json.dumps(one.point),
                one.loss if math.isfinite(one.loss) else None,
                one.excess_frac,
                json.dumps(one.also),
                one.short_of,
            )
            for one in found
        ]
        with self._link:
            self._link.executemany("INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?, ?)", rows)


def _scored(point: str, loss: float | None, excess_frac: float, also: str, short_of: str) -> Scored:
    return Scored(
        point=tuple(json.loads(point)),
        loss=math.inf if loss is None else loss,
        excess_frac=excess_frac,
        also=tuple(json.loads(also)),
        short_of=short_of,
    )


class Store:
    """One file of studies."""

    def __init__(self, link: sqlite3.Connection) -> None:
        self._link = link

    def study(self, kind: str, inputs: dict[str, Any]) -> Study:
        """The study of these inputs by this model, begun where there is none."""
        text, model = json.dumps(inputs, sort_keys=True), model_version()
        key = hashlib.sha256(f"{kind}\0{model}\0{text}".encode()).hexdigest()[:16]
        with self._link:
            self._link.execute(
                "INSERT OR IGNORE INTO studies (key, kind, model, inputs) VALUES (?, ?, ?, ?)", (key, kind, model, text)
            )
        [row] = self._link.execute("SELECT id FROM studies WHERE key = ?", (key,)).fetchone()
        return Study(self._link, row)

    def studies(self) -> tuple[StudyRecord, ...]:
        query = (
            "SELECT key, kind, model, inputs, started, (SELECT count(*) FROM points WHERE study = id)"
            " FROM studies ORDER BY id"
        )
        return tuple(
            StudyRecord(
                key=key, kind=kind, model=model, inputs=json.loads(inputs), started=started, num_points=num_points
            )
            for key, kind, model, inputs, started, num_points in self._link.execute(query)
        )


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The store in the file at `path`, made where there is none; raises `InvalidInput` where it is something else."""
    try:
        link = sqlite3.connect(path, timeout=WAIT_S)
    except sqlite3.Error as error:
        raise InvalidInput(f"{path} cannot be opened as a store: {error}", "store") from None
    try:
        _prepare(link, path)
        yield Store(link)
    finally:
        link.close()


def _prepare(link: sqlite3.Connection, path: Path) -> None:
    """Makes the tables in one transaction, so that two processes may begin with the same new file."""
    try:
        link.execute("PRAGMA journal_mode = WAL")
        link.execute("PRAGMA synchronous = NORMAL")  # in this mode what was committed survives a killed process
        with link:
            link.execute("BEGIN IMMEDIATE")
            [version] = link.execute("PRAGMA user_version").fetchone()
            [num_tables] = link.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version not in (0, FORMAT) or (version == 0 and num_tables):
                told = f"{path} is not a store of this version of Dovetail (format {version}, not {FORMAT})"
                raise InvalidInput(f"{told}; name another file", "store")
            for table in _TABLES:
                link.execute(table)
            link.execute(f"PRAGMA user_version = {FORMAT}")
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{path} is not a store: {error}; name another file", "store") from None
