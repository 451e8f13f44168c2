"""`--html FILE`: the answer of a command as one page too."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dovetail.cli.screen import remark
from dovetail.files.report_page import check_page_file, versions, write_page
from dovetail.files.text import one_line
from dovetail.report.page import Page, Provenance
from dovetail.report.record import Record
from dovetail.store.version import model_version

T = TypeVar("T")


def check_html(file: str) -> None:
    """Raises where a page is asked for and cannot be written; call it before any work."""
    if file:
        check_page_file(file)


def show_html(file: str, page: Page, inputs: Record, answer: Record, *, is_told: bool) -> None:
    """Writes `page` with all that it takes to get it again; `is_told` says where it is, on the screen."""
    provenance = Provenance(
        command=shlex.join(["dovetail", *sys.argv[1:]]),
        versions=versions(model_version()),
        inputs=inputs,
        answer=answer,
    )
    write_page(Path(file), page, provenance)
    if is_told:
        remark(f"\nreport: {one_line(file)}\n")


def kept(watch: Callable[[T], None], history: list[T]) -> Callable[[T], None]:
    """A watch that keeps in `history` what a search tells of itself, for its page, and passes it on."""

    def keep(now: T) -> None:
        history.append(now)
        watch(now)

    return keep
