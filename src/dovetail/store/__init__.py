"""Everything a search has evaluated, in one SQLite file: kept at once, found again, never mixed with other numbers.

A study is known by the hash of all its inputs and of the model that evaluates them, so a changed input or a newer
Dovetail starts a new one. Rows are written in write-ahead mode, a transaction for each batch: a process killed at any
moment loses nothing it was told, and several may work on one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.store.file import readable, writable
from dovetail.store.rescue import Rescued, rescue
from dovetail.store.study import Store, Study

__all__ = ["Rescued", "Store", "Study", "opened", "reading", "rescue"]


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The store in the file at `path`, made where there is none; raises `InvalidInput` where it is something else."""
    with writable(path) as link:
        yield Store(link, path)


@contextmanager
def reading(path: Path) -> Iterator[Store]:
    """The store in the file at `path`, to look at."""
    with readable(path) as link:
        yield Store(link, path)
