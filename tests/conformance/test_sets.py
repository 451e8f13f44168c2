"""Every format of measurements keeps its contract on what ships."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import format_of, prepared, sets
from dovetail.files.measurements import SHIPPED, csv_files, load_measurements, shipped_folder
from dovetail.workload.graph import FloatArray

FILES = [file for name in SHIPPED for file in csv_files(shipped_folder(name))]
TABLES = [table for table in map(load_measurements, FILES) if format_of(table)]
SIMULATED = (
    "published_training",
    "published_tpu",
    "published_memory",
    "layers",
    "layers_compiled",
)  # rows that take a simulation each


@pytest.mark.parametrize("name", sets.names())
def test_a_format_says_what_it_needs_and_what_it_is(name):
    known = sets[name]
    assert known.needed
    assert all(column == column.lower() for column in known.needed)
    assert known.summary


def cut(table: Measurements) -> Measurements:
    """One row of ten of a table whose rows take a simulation each; others whole. `validate` scores them all."""
    rows = slice(None, None, 10 if table.name in SIMULATED else 1)
    return replace(table, rows=table.rows[rows], lines=table.lines[rows])


@cache
def prepared_of(name: str) -> tuple[Prepared, ...]:
    return tuple(prepared(cut(next(table for table in TABLES if table.name == name)), TableContext()))


@cache
def predicted_of(name: str, place: int) -> FloatArray:
    one = prepared_of(name)[place]
    return one.predicted(one.chip)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_row_that_ships_is_compared_or_counted(table):
    table, found = cut(table), prepared_of(table.name)
    num_skipped = sum(count for one in found for _, count in one.skipped)
    num_figures = sum(len(one.measured) for one in found) + num_skipped
    # a row of dies or of an array simulator has several figures, some of which may be unknown
    assert num_figures >= len(table) if table.name in ("dies", "dse_peer_runs") else num_figures == len(table)
    for place, one in enumerate(found):
        predicted = predicted_of(table.name, place)
        assert len(one.kinds) == len(one.whats) == len(one.measured) == len(predicted)
        assert np.all(np.isfinite(predicted))
        assert np.all(predicted > 0)
        assert np.all(one.measured > 0)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_prediction_repeats_to_the_bit(table):
    again = next(iter(prepared(cut(table), TableContext())))
    assert np.array_equal(predicted_of(table.name, 0), again.predicted(again.chip))
