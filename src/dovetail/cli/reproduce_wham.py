"""`dovetail reproduce wham`: the best chips for WHAM's models, beside what the paper says."""

from __future__ import annotations

from dovetail.cli.mine import say_if_slow
from dovetail.cli.progress import stepping
from dovetail.report.record import Record
from dovetail.report.wham_record import wham_record
from dovetail.search.wham.cases import NAMES, tasks
from dovetail.search.wham.searches import wham_budget
from dovetail.search.wham.study import wham_study


def wham(models: tuple[str, ...], *, is_exhaustive: bool) -> Record:
    """The comparison over `models`, all of the paper's where none is named."""
    chosen = tuple(tasks(models or NAMES))
    say_if_slow()
    with stepping([task.name for task in chosen]) as told:
        return wham_record(wham_study(chosen, wham_budget(), is_exhaustive=is_exhaustive, told=told))
