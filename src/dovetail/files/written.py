"""Files that a command writes, whole or not at all.

What a command draws of its answer, pages, pictures, timelines and tables (`--html`, `--plot`, `--perfetto`, `--csv`),
is written each time: the same command makes it again, and scripts run twice. What a user goes on with and may have
edited, specs, plans, chips, clusters, launch scripts, captured models, traces and exported rows, is never written over
without `--force`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import one_line, quoted

_LOG = logging.getLogger(__name__)


def check_writable(file: Path, *, is_forced: bool) -> None:
    """Raises where `file` stands already and may not be written over, or where its folder does not, before any work.

    `is_forced` is what `--force` says of a file that a user goes on with, and true of what is drawn of an answer.
    """
    if file.is_dir():
        raise InvalidInput(f"{quoted(str(file))} is a folder; name a file in it")
    if file.exists() and not is_forced:
        raise InvalidInput(f"file {quoted(str(file))} exists; pass --force to write over it, or another name")
    if not file.parent.is_dir():
        raise InvalidInput(f"there is no folder {quoted(str(file.parent))} to write {quoted(file.name)} to")


def write_file(file: Path, text: str) -> None:
    """Writes text as `write_bytes` does."""
    write_bytes(file, text.encode())


def write_bytes(file: Path, data: bytes) -> None:
    """Writes beside `file` and then puts it in place, so that no reader meets half of it."""
    try:
        with placed(file) as half:
            half.write_bytes(data)
    except ValueError as error:  # a name that cannot be one
        raise _unwritten(file, error) from None


@contextmanager
def placed(file: Path) -> Iterator[Path]:
    """A name beside `file` to write to; what is there at the end is put in place, and nothing where writing failed."""
    half = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield half
        os.replace(half, file)
        _LOG.info("wrote %s", one_line(str(file)))
    except OSError as error:
        raise _unwritten(file, error) from None
    finally:
        with suppress(OSError, ValueError):
            half.unlink(missing_ok=True)


def _unwritten(file: Path, error: Exception) -> InvalidInput:
    reason = one_line(str(getattr(error, "strerror", "") or error)).lower()
    return InvalidInput(f"cannot write file {quoted(str(file))}: {reason}")
