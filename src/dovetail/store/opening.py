"""A store by its file: to write to, or to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.store.file import readable, writable
from dovetail.store.study import Store


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
