"""`dovetail schedule`: the operators of one block of a model on the cores of a chip."""

from __future__ import annotations

from pathlib import Path

from dovetail.api.scheduled import ScheduleAsked, limit_of, scheduled
from dovetail.cli.answers import show_answer
from dovetail.cli.html import check_html
from dovetail.cli.progress import busy
from dovetail.cli.slow_loops import say_if_slow
from dovetail.files.perfetto import check_trace_name
from dovetail.files.written import check_writable


def answer(asked: ScheduleAsked, *, as_json: bool, perfetto: str = "", html: str = "") -> bool:
    """Shows the schedule, and says whether HBM holds what it has at once."""
    check_html(html)
    limit = limit_of(asked)
    if perfetto:
        check_trace_name(perfetto)
        check_writable(Path(perfetto), is_forced=True)
    say_if_slow()
    words = f"searching for the best schedule, {limit.wall_s:g} s at most" if asked.is_exact else "scheduling"
    with busy(words):
        found = scheduled(asked)
    if perfetto:
        found.to_perfetto(perfetto)
    return show_answer(found, as_json=as_json, html=html)
