"""Where a plot goes."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import one_line
from dovetail.files.written import check_writable

ENDING = ".svg"


def picture_file(name: str) -> Path | None:
    """The file that --plot names, none where it names none; raises where it cannot be written or ends otherwise."""
    if not name:
        return None
    file = Path(name)
    if file.suffix.lower() != ENDING:
        raise InvalidInput(f"a plot is written to {ENDING}, a page by --html; got {one_line(name)!r}", "--plot")
    check_writable(file, is_forced=True)
    return file
