"""A report's page as a file, and what it was made by."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import quoted
from dovetail.files.written import check_writable, write_file
from dovetail.report.page import Page, Provenance, page_html

SUFFIXES = (".html", ".htm")
LIBRARIES = ("numpy",)  # what numbers rest on, beside Python


def check_page_file(file: str) -> None:
    """Raises where no page can be written to `file`, before any work is done; one that stands is written over."""
    if Path(file).suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a page is written to .html; got {quoted(Path(file).name)}", "--html")
    check_writable(Path(file), is_forced=True)


def versions(model_version: str) -> tuple[tuple[str, str], ...]:
    """What a page was made by. `model_version` is dovetail's, with the hash of what its predictions follow from."""
    return (
        ("dovetail", model_version),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in LIBRARIES),
    )


def page_text(page: Page, provenance: Provenance) -> str:
    return page_html(page, provenance)


def write_page(file: Path, page: Page, provenance: Provenance) -> None:
    write_file(file, page_text(page, provenance))
