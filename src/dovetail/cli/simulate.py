"""`dovetail simulate`: from what was asked to an answer on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dovetail.api.asked import Asked
from dovetail.api.simulated import simulated
from dovetail.cli.answers import show_answer
from dovetail.cli.html import check_html
from dovetail.cli.manner import doing
from dovetail.cli.timeline import tell_timeline, timeline_files, timeline_record, write_step

if TYPE_CHECKING:
    from dovetail.api.around import Around


def answer(
    asked: Asked, *, as_json: bool, num_tokens: float = 0.0, html: str = "", perfetto: str = "", ranks: str = ""
) -> bool:
    """Shows the answer, writes its timeline where one is asked for, and says whether the plan fits."""
    check_html(html)
    files = timeline_files(perfetto, ranks)
    with doing("simulated"):
        found = simulated(asked, num_tokens=num_tokens, around=_around)
    written = write_step(files, found.outcome)
    fits = show_answer(found, as_json=as_json, html=html, more=timeline_record(files, written))
    if not as_json:
        tell_timeline(files, written)
    return fits


@contextmanager
def _around() -> Iterator[Around]:
    """For a plan that is to be found; imported where one searches."""
    from dovetail.cli.around import Terminal

    yield Terminal()
