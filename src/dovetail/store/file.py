"""A store's file, opened: known to be one before anything is written to it, and in write-ahead mode from then on."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.store import faults
from dovetail.store.faults import damaged, damaged_beside, foreign, is_busy, watched

FORMAT = 2  # of the tables; a file of another is refused
HEADER = b"SQLite format 3\0"  # sqlite.org/fileformat2.html, 1.3
NUMBER_AT = slice(68, 72)  # the same: the application id, big end first, in which a store has a number of its own
CANNOT_MAKE = ("SQLITE_CANTOPEN", "SQLITE_READONLY_DIRECTORY", "SQLITE_READONLY_CANTINIT")  # files beside the store
RETRY_S = 0.01
BROKEN = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_TABLES = (
    """CREATE TABLE studies (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, inputs TEXT NOT NULL,
    figure_names TEXT NOT NULL, num_rows INTEGER NOT NULL DEFAULT 0,
    started TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    written TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))""",
    """CREATE TABLE points (
    study INTEGER NOT NULL REFERENCES studies (id), point BLOB NOT NULL, loss REAL, told BLOB NOT NULL,
    short_of TEXT NOT NULL, plan TEXT NOT NULL, PRIMARY KEY (study, point)) WITHOUT ROWID""",
)


@contextmanager
def writable(path: Path) -> Iterator[sqlite3.Connection]:
    """The store at `path`, made where there is none; raises `InvalidInput` where it is something else."""
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"a store is a file in a folder that is there; got {str(path)!r}", "store")
    with watched(path):
        link = _prepared(path)
    with closing(link):
        yield link


def _prepared(path: Path) -> sqlite3.Connection:
    """A connection to write by, tried again while another process opens the same file.

    SQLite answers BUSY at once, whatever its timeout, where two connections switch one file to write-ahead mode.
    """
    ends_s = time.monotonic() + faults.WAIT_S
    while True:
        try:
            return _prepared_once(path)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > ends_s:
                raise
            time.sleep(RETRY_S)


def _prepared_once(path: Path) -> sqlite3.Connection:
    if path.exists() and path.stat().st_size:
        checked(path).close()  # cannot write: the last to close a file puts in place what is beside it
    link = sqlite3.connect(path, timeout=faults.WAIT_S, isolation_level="IMMEDIATE")
    try:
        _prepare(link, path)
    except BaseException:
        link.close()
        raise
    return link


@contextmanager
def readable(path: Path) -> Iterator[sqlite3.Connection]:
    """The store at `path`, to read alone; works in a folder that may not be written to."""
    if not path.is_file():
        raise InvalidInput(f"there is no store at {str(path)!r}", "store")
    with watched(path):
        link = checked(path)
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):  # so that nothing stays beside it at the end
            link.close()
            link = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=faults.WAIT_S)
            link.execute("PRAGMA query_only = 1")
    with closing(link):
        with watched(path):
            if _format(link, path) != FORMAT:
                raise foreign(path, "it holds nothing")
        yield link


def readable_anyway(path: Path) -> sqlite3.Connection:
    """The store at `path`, damaged or not, without what is beside it where that is not its own."""
    with watched(path):
        if not path.is_file():
            raise InvalidInput(f"there is no store at {str(path)!r}", "store")
        link = _reader(path)
        try:
            is_own = not _left_behind(path) or _is_own(link, path)
        except InvalidInput:
            is_own = True  # damaged either way
        if is_own:
            return link
        link.close()
        return _alone(path)


def checked(path: Path) -> sqlite3.Connection:
    """A connection to read by, to what is known to be a store, or is just being made one."""
    link = _reader(path)
    try:
        if _left_behind(path) and not _is_own(link, path):
            raise damaged_beside(path)
        _format(link, path)
    except BaseException:
        link.close()
        raise
    return link


def _reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. Where SQLite may not make its files beside a store, no one else writes either."""
    with path.open("rb") as file:
        if file.read(len(HEADER)) not in (HEADER, b""):
            raise foreign(path, "the file is no database")
    link = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=faults.WAIT_S)
    try:
        link.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name in BROKEN:
            return link  # the first read raises
        link.close()
        if name not in CANNOT_MAKE:
            raise
        if _left_behind(path):
            message = f"{path} lies in a folder that cannot be written to, with rows still in {path.name}-wal"
            raise InvalidInput(f"{message}; copy both files elsewhere, and name the copy", "store") from None
        return _alone(path)
    return link


def _alone(path: Path) -> sqlite3.Connection:
    """The file without what is beside it, and without a look at whether others write to it."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def _left_behind(path: Path) -> bool:
    """Whether there are rows beside the file: another process has it open, or ended before it put them in place."""
    beside = path.with_name(f"{path.name}-wal")
    return beside.exists() and beside.stat().st_size > 0


def _format(link: sqlite3.Connection, path: Path) -> int:
    """The format of a store, 0 of one that is just being made; raises where it is something else."""
    [version] = link.execute("PRAGMA user_version").fetchone()
    tables = {name for [name] in link.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == 0 and not tables:
        return 0
    if version == 0 or not {"studies", "points"} <= tables:
        raise foreign(path, "the database is of another program")
    if version != FORMAT:
        than = "an earlier" if version < FORMAT else "a later"
        raise foreign(path, f"it is of format {version}, {than} Dovetail's, and this one reads format {FORMAT}")
    return FORMAT


def _is_own(link: sqlite3.Connection, path: Path) -> bool:
    """Whether the rows left beside a file are its own: SQLite would take those of any store of the same name for them.

    They are not where they carry another number, or where the file is whole without them and is not with them.
    """
    with path.open("rb") as file:
        on_disk = int.from_bytes(file.read(NUMBER_AT.stop)[NUMBER_AT], "big")
    try:
        [number] = link.execute("PRAGMA application_id").fetchone()
        if on_disk in (0, number) and _is_whole(link):  # 0: made, and all of it still beside
            return True
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") not in BROKEN:
            raise
    with closing(_alone(path)) as link_alone:
        if _is_whole(link_alone):
            return False
    raise damaged(path, "its pages do not fit together")


def _is_whole(link: sqlite3.Connection) -> bool:
    [verdict, *_] = (line for [line] in link.execute("PRAGMA quick_check(1)"))
    return bool(verdict == "ok")


def _prepare(link: sqlite3.Connection, path: Path) -> None:
    """Makes the tables in one transaction, so that two processes may begin with the same new file."""
    link.execute("PRAGMA journal_mode = WAL")
    link.execute("PRAGMA synchronous = NORMAL")  # in this mode what was committed survives a killed process
    is_new = False
    with link:
        link.execute("BEGIN IMMEDIATE")
        if _format(link, path) != FORMAT:
            is_new = True
            for table in _TABLES:
                link.execute(table)
            link.execute(f"PRAGMA application_id = {1 + secrets.randbelow(2**31 - 1)}")
            link.execute(f"PRAGMA user_version = {FORMAT}")
    if is_new:
        link.execute("PRAGMA wal_checkpoint(PASSIVE)")  # so that the file itself has its number
