"""Stages on several parts of a cluster, costed part by part, as the columns of one pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from dovetail.plan.layout import Run
from dovetail.plan.plans import distinct
from dovetail.schedule.shared_plans import Shared
from dovetail.schedule.stage_columns import StageColumns, stage_columns
from dovetail.workload.graph import IntArray

_KEYS = ("work_of", "update_of", "exchange_of")
_OF_KEY = {"update_s": "update_of", "update_j": "update_of", "exchange": "exchange_of"}  # all else is of work


def part_columns(every: Shared, runs: tuple[Run, ...], rows: IntArray, *, fills_waits: bool) -> StageColumns:
    """The columns of plans in `rows`: of each part of the cluster those of the runs that are on it."""
    by_part = []
    for index, part in enumerate(every.parts):
        here = tuple(run for run in runs if run.part == index)
        columns = stage_columns(
            part.table, here, rows, every.graph, part.places, every.precision, fills_waits=fills_waits
        )
        by_part.append(columns)
    return joined_columns(by_part, [run.part for run in runs]) if every.others else by_part[0]


def joined_columns(by_part: Sequence[StageColumns], part_of_run: Sequence[int]) -> StageColumns:
    """The columns of all runs, of which those on each part are given, in order."""
    place = np.argsort(np.argsort(part_of_run, kind="stable"))  # of every run, where parts follow each other
    widths = np.bincount(part_of_run, minlength=len(by_part))
    found: dict[str, Any] = {}
    for key in _KEYS:
        first, found[key] = distinct(*(getattr(some, key) for some in by_part))
        rows = [getattr(some, key)[first] for some in by_part]
        names = [f.name for f in fields(StageColumns) if f.name not in _KEYS and _OF_KEY.get(f.name, "work_of") == key]
        for name in names:
            values = [getattr(some, name) for some in by_part]
            found[name] = _side_by_side(values, rows, widths, place)
    return StageColumns(**found)


def _side_by_side(values: Sequence[Any], rows: Sequence[IntArray], widths: IntArray, place: IntArray) -> Any:
    """Values whose amounts are rows by runs as one, of some of the rows and all runs; numbers are for all of them."""
    first = values[0]
    if is_dataclass(first) and not isinstance(first, type):
        parts = {f.name: [getattr(value, f.name) for value in values] for f in fields(first)}
        return replace(first, **{name: _side_by_side(some, rows, widths, place) for name, some in parts.items()})
    if isinstance(first, tuple):
        return tuple(_side_by_side(some, rows, widths, place) for some in zip(*values, strict=True))
    wide = [
        value[some] if np.ndim(value) else np.full((len(some), width), value)
        for value, some, width in zip(values, rows, widths, strict=True)
    ]
    return np.concatenate(wide, axis=1)[:, place]
