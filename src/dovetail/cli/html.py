"""`--html FILE`: the answer of a command as one page too."""

from __future__ import annotations

import shlex
import sys

from dovetail.api.answer import write_answer
from dovetail.cli.screen import remark
from dovetail.files.report_page import check_page_file
from dovetail.files.text import one_line
from dovetail.report.page import Page
from dovetail.report.plain import Record


def check_html(file: str) -> None:
    """Raises where a page is requested and cannot be written; call it before any work."""
    if file:
        check_page_file(file)


def show_html(file: str, page: Page, inputs: Record, answer: Record, *, is_announced: bool) -> None:
    """Writes `page` with all that it takes to get it again; `is_announced` prints its path."""
    write_answer(file, page, command=shlex.join(["dovetail", *sys.argv[1:]]), inputs=inputs, answer=answer)
    if is_announced:
        remark(f"\nreport: {one_line(file)}\n")
