"""What can be wrong with a store, in one line each: what happened, what is kept, and how to go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.errors import InvalidInput

WAIT_S = 30.0  # for another process that is writing
AGAIN = "run the same command again to go on"
FAULTS = (sqlite3.Error, UnicodeDecodeError)  # the second where what SQLite says quotes bytes that are no text


@contextmanager
def watched(path: Path) -> Iterator[None]:
    """Raises what goes wrong within with the file at `path` as one line of ours."""
    try:
        yield
    except FAULTS as error:
        raise fault(error, path) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {(error.strerror or str(error)).lower()}", "store") from None


def fault(error: sqlite3.Error | UnicodeDecodeError, path: Path, num_rows: int = 0) -> InvalidInput:
    """SQLite's error on the file at `path`, in our words; `num_rows` are known to be kept."""
    if isinstance(error, UnicodeDecodeError):
        return damaged(path, "names in it are no text")
    name = str(getattr(error, "sqlite_errorname", "") or "")
    kept = f"the {num_rows:,} rows of this study are kept" if num_rows else "what was in it is kept"
    if name.startswith("SQLITE_FULL"):
        return InvalidInput(f"there is no room left to write to {path}; {kept}; make room, and {AGAIN}", "store")
    if is_busy(error):
        message = f"another process has been writing to {path} for more than {WAIT_S:g} s; {kept}"
        return InvalidInput(f"{message}; once it has ended, {AGAIN}", "store")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        message = f"{path} cannot be written: it or its folder is read-only, or another user owns it"
        return InvalidInput(f"{message}; allow writing to both, or name another file", "store")
    if name.startswith("SQLITE_IOERR"):
        message = f"{path} cannot be written or read ({name.removeprefix('SQLITE_')}); {kept}"
        return InvalidInput(f"{message}; see to the disk, its quota and ulimit -f, and {AGAIN}", "store")
    if name.startswith("SQLITE_NOTADB"):
        return foreign(path, "the file is no database")
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError | sqlite3.IntegrityError):
        raise error  # our own mistake
    return damaged(path, str(error))


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the lock."""
    return str(getattr(error, "sqlite_errorname", "") or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def foreign(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{path} is not a store: {why}; it is left as it is: name another file", "store")


def damaged(path: Path, why: str) -> InvalidInput:
    """A store that a disk, a copy or another program has changed."""
    way_out = f"put back a copy of it, or save the rows that are whole: dovetail studies {path} --rescue FILE"
    return InvalidInput(f"{path} is damaged: {why}; it is left as it is: {way_out}", "store")


def damaged_beside(path: Path) -> InvalidInput:
    """A store that is whole, with something beside it that SQLite would put into it."""
    message = f"{path.name}-wal beside it is damaged, or of another store"
    return InvalidInput(f"{path} cannot be used: {message}; move that file away to go on with the rest", "store")
