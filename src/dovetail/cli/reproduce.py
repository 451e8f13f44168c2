"""`dovetail reproduce`: a paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from dovetail.api.reproduced import ReproduceAsked, check_asked, reproduced
from dovetail.cli.answers import show_answer
from dovetail.cli.html import check_html
from dovetail.cli.progress import busy, stepping
from dovetail.cli.slow_loops import say_if_slow
from dovetail.errors import InvalidInput
from dovetail.files.text import one_line


class _Screen:
    """Progress as the command line shows it."""

    def busy(self, words: str) -> AbstractContextManager[None]:
        return busy(words)

    def stepping(self, names: list[str]) -> AbstractContextManager[Callable[[str], None]]:
        return stepping(names)


def answer(asked: ReproduceAsked, *, figures: str = "", as_json: bool = False, html: str = "") -> bool:
    """Shows the tables, and says whether every number that must meet the paper's does."""
    check_asked(asked)
    check_html(html)
    folder = _folder(figures)
    if asked.paper == "wham":
        say_if_slow()
    found = reproduced(asked, _Screen())
    if folder is not None:
        found.to_svg(folder)
    return show_answer(found, as_json=as_json, html=html)


def _folder(name: str) -> Path | None:
    """Where figures go: a folder that is there."""
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {one_line(name)!r} to write figures to", "--figures")
    return folder
