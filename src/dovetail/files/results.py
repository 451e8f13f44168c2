"""Results that `dovetail validate --json` wrote, read back: for measurements that may not travel with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dovetail.files.entry import opened
from dovetail.files.schema import Number, Shape, Text, Whole, checked


class _Bar(Shape):
    statistic: Text
    limit_frac: Number
    measured_frac: Number
    holds: bool


class _Row(Shape):
    kind: Text
    what: Text
    measured: Number
    predicted: Number
    error_frac: Number


class _Score(Shape):
    kind: str
    num_rows: Whole
    mape_frac: Number
    median_frac: Number
    p90_frac: Number
    worst_frac: Number
    bias_frac: Number
    bars: list[_Bar]
    worst: list[_Row]


class _Skipped(Shape):
    what: Text
    num_rows: Whole


class _Set(Shape):
    set: Text
    chip: str
    unit: Text
    scores: list[_Score]
    skipped: list[_Skipped]


class _Results(Shape):
    holds: bool
    sets: list[_Set]
    notes: list[Text]
    recorded: str = ""
    commit: str = ""


def load_results(file: Path) -> dict[str, Any]:
    """The results in `file`, with a note of when they were recorded where the file says so."""
    results: _Results = checked(opened(file), _Results, hint="; these are no results of dovetail validate --json")
    plain = results.model_dump()
    if results.recorded:
        names = ", ".join(one["set"] for one in plain["sets"])
        at = f" at commit {results.commit}" if results.commit else ""
        plain["notes"].append(f"{names}: recorded on {results.recorded}{at}, on measurements that are not shipped")
    return plain
