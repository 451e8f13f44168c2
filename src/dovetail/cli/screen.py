"""Standard output: tables with or without colour, JSON, and a reader that may leave early."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from typing import Any

from dovetail.cli.process import forget_output
from dovetail.report.table import BLOCKS, WIDTH, Line, Table, lines, text_of

MIN_WIDTH = 60
STYLES = {"title": "bold", "header": "dim", "row": "", "note": ""}
BARS = f"[{BLOCKS[1:]}]"


def show_tables(tables: tuple[Table, ...]) -> None:
    if not _has_colour():
        write(text_of(tables))
        return
    from rich.console import Console

    width = max(MIN_WIDTH, min(WIDTH, shutil.get_terminal_size().columns))
    console = Console(highlight=False, width=width)
    try:
        print_styled(console, tables, width)
    except BrokenPipeError:
        forget_output()  # nobody reads on, as after `| head`: that is no error


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


def show_json(value: Any) -> None:
    write(json.dumps(value, indent=2, allow_nan=False) + "\n")


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
        forget_output()  # nobody reads on, as after `| head`: that is no error


def _has_colour() -> bool:
    """Colour is for people: never in a pipe or a file, nor where NO_COLOR (no-color.org) or the terminal says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
