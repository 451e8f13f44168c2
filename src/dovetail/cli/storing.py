"""A search with a store: what is known at its start, every row kept at once, and what to say when it is interrupted."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dovetail.cli.process import EXIT_INTERRUPTED, stream
from dovetail.errors import InvalidInput
from dovetail.files.text import one_line
from dovetail.search.algorithms import Scored
from dovetail.search.space import Point
from dovetail.store import Store, opened

Keep = Callable[[list[Scored]], None]
Kept = tuple[Mapping[Point, Scored], Keep]


@contextmanager
def chosen_store(file: str) -> Iterator[Store | None]:
    """The store that --store names; opened before any work is done, so that a bad one costs no time."""
    if not file:
        yield None
        return
    path = Path(file)
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"--store names a file in a folder that is there; got {file!r}")
    with opened(path) as store:
        yield store


@contextmanager
def resumed(
    store: Store | None, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...] = ()
) -> Iterator[Kept]:
    """What is known of this question, and how to keep more; nothing, and nowhere, without a store."""
    if store is None:
        yield {}, lambda _: None
        return
    study = store.study(kind, inputs, figure_names)
    known = study.known()
    with _told_when_interrupted(store):
        yield known, study.keep


@contextmanager
def _told_when_interrupted(store: Store) -> Iterator[None]:
    """Ends the process at an interrupt, as every command does, but says what is kept and how to go on."""
    previous = signal.getsignal(signal.SIGINT)

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        told = f"dovetail: {one_line(interrupted_words(store.num_kept(), store.path))}\n"
        if stream("stderr") is not None:
            os.write(2, told.encode(errors="backslashreplace"))
        os._exit(EXIT_INTERRUPTED)

    try:
        if not callable(previous):  # ignored, as a shell may have it
            raise ValueError
        signal.signal(signal.SIGINT, interrupted)
    except ValueError:  # not the main thread, which alone may say
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def interrupted_words(num_rows: int, path: Path) -> str:
    command = shlex.join(("dovetail", *sys.argv[1:]))
    return f"interrupted; {num_rows:,} designs are kept in {path}; to go on: {command}"
