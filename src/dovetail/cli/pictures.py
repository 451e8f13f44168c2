"""Where a plot goes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import one_line
from dovetail.files.written import check_writable


def picture_file(name: str, endings: Iterable[str]) -> Path | None:
    """The file that --plot names, none where it names none; raises where it cannot be written or ends otherwise."""
    if not name:
        return None
    file = Path(name)
    known = tuple(endings)
    if file.suffix.lower() not in known:
        raise InvalidInput(f"a plot is written to {' or '.join(known)}; got {one_line(name)!r}", "--plot")
    check_writable(file, is_forced=True)
    return file
