"""A search with a store: what is known at its start, every row kept at once, and what to say when it is interrupted."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.api.search_context import Kept, kept
from dovetail.cli.interrupts import at_interrupt
from dovetail.cli.process import EXIT_INTERRUPTED, stream
from dovetail.cli.verbosity import note
from dovetail.files.text import one_line
from dovetail.report.studies import SHORT_KEY
from dovetail.store import Store, Study


@contextmanager
def resumed(
    store: Store | None, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...] = ()
) -> Iterator[Kept]:
    """What is known of this question, and how to keep more; nothing, and nowhere, without a store."""
    with kept(store, kind, inputs, figure_names) as found:
        if store is None:
            yield found
            return
        if not found[0]:
            _tell_of_others(store, store.study(kind, inputs, figure_names))
        with _message_when_interrupted(store):
            yield found


def _tell_of_others(store: Store, study: Study) -> None:
    """Why a study starts again though its question is known: the physics, a chip, a model or plugins changed."""
    for other, reasons in store.others(study):
        message = (
            f"{other.num_rows:,} rows of this question are by {other.model_version} (study {other.key[:SHORT_KEY]})"
        )
        note(one_line(f"{message}; this search starts again, as numbers are never mixed: {'; '.join(reasons)}"))


@contextmanager
def _message_when_interrupted(store: Store) -> Iterator[None]:
    """Ends the process at an interrupt, as every command does, but says what is kept and how to go on."""

    def interrupted(*_: object) -> None:
        message = f"dovetail: {one_line(interrupted_message(store.num_kept(), store.path))}\n"
        if stream("stderr") is not None:
            os.write(2, message.encode(errors="backslashreplace"))
        os._exit(EXIT_INTERRUPTED)

    with at_interrupt(interrupted):
        yield


def interrupted_message(num_rows: int, path: Path) -> str:
    command = shlex.join(("dovetail", *sys.argv[1:]))
    return f"interrupted; {num_rows:,} designs are kept in {path}; to go on: {command}"
