"""Standard output: tables with or without colour, JSON, and a reader that may leave early."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from dataclasses import replace
from typing import Any

from dovetail.cli.process import forget_output
from dovetail.cli.verbosity import has_colour, verbosity
from dovetail.report.plain import Record, versioned
from dovetail.report.table import BLOCKS, WIDTH, Line, Table, lines, text_of

MIN_WIDTH = 40
STYLES = {"title": "bold", "header": "dim", "row": "", "note": ""}
BARS = f"[{BLOCKS[1:]}]"


def show_tables(tables: tuple[Table, ...]) -> None:
    if verbosity().is_quiet:
        tables = without_notes(tables)
    width = max(MIN_WIDTH, min(WIDTH, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else WIDTH
    if not has_colour(sys.stdout):
        write(text_of(tables, width))
        return
    from rich.console import Console

    console = Console(highlight=False, width=width, force_terminal=True)
    try:
        print_styled(console, tables, width)
    except BrokenPipeError:
        forget_output()  # the reader has gone, as after `| head`: that is no error


def print_styled(console: Any, tables: tuple[Table, ...], width: int = WIDTH) -> None:
    """Prints the same text as `text_of`, with titles bold and bars in colour."""
    for index, table in enumerate(tables):
        if index:
            console.print()
        for line in lines(table, width):
            console.print(_styled(line), soft_wrap=True)


def _styled(line: Line) -> Any:
    from rich.text import Text

    text = Text(line.text, style=STYLES[line.kind])
    text.highlight_regex(f"{BARS}+", "cyan")
    return text


def without_notes(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """Figures alone: tables without the notes below them, and none that only has notes but the first.

    That is the answer, be it in words.
    """
    first = tuple(table for table in tables[:1] if not table.rows)
    return (*first, *(replace(table, notes=()) for table in tables if table.rows))


def wrapped(line: str) -> str:
    """A sentence on lines that fit; file names stay whole."""
    return textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def remark(text: str) -> None:
    """Writes what is no part of the answer, such as where a file went, unless only that is wanted."""
    if not verbosity().is_quiet:
        write(text)


def show_json(record: Record) -> None:
    """Writes what a command answers for programs, with the version of its keys."""
    write(json.dumps(versioned(record), indent=2, allow_nan=False) + "\n")


def write(text: str) -> None:
    """Writes to standard output; bars become '#' where it has no such characters."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = re.sub(BARS, "#", text).encode(encoding, "replace").decode(encoding)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()  # the reader has gone, as after `| head`: that is no error
