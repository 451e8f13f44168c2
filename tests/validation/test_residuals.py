"""Intervals rest on errors of today's model on published runs: those that ship are looked at one in five."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.residuals import STALE, TABLE, moved, timed_residuals
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.files.residuals import load_residuals

EVERY = 5
LEAST_ROWS = 60


@pytest.mark.slow
def test_the_errors_that_intervals_rest_on_are_those_of_todays_model():
    today = timed_residuals(EVERY)
    asked = set(load_measurements(shipped_folder(TABLE)).words("row_id")[::EVERY])
    shipped = [row for row in load_residuals() if row.name in asked]
    assert len(today) >= LEAST_ROWS
    assert not moved(today, shipped), "write them again: python -m benchmarks.residuals"


def test_an_error_that_moved_or_is_missing_is_named():
    first, second, *others = load_residuals()
    changed = replace(second, log_ratio=second.log_ratio + 2 * STALE)
    near = replace(first, log_ratio=first.log_ratio + STALE / 2)
    assert moved([near, second, *others], [first, second, *others]) == []
    assert moved([first, changed, *others], [first, second, *others]) == [second.name]
    assert moved([second, *others], [first, *others]) == sorted([first.name, second.name])
