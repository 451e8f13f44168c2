"""Tables of columns: equal rows are found as NumPy finds them row by row, and columns of unequal length are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.columns import check_rows, distinct, is_among
from dovetail.parallel.plan import Plan, columns_of


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("greatest", [1, 3, 1000, 10**9])
def test_distinct_rows_are_those_that_differ_somewhere(seed: int, greatest: int) -> None:
    rng = np.random.default_rng(seed)
    few = rng.integers(1, greatest, (12, 2), endpoint=True)  # so that rows repeat
    rows = few[rng.integers(0, len(few), 200)]
    flags = rng.random(200) < 0.3
    first, which = distinct(rows[:, 0], flags, rows[:, 1])
    whole = np.column_stack([rows[:, 0], flags, rows[:, 1]])
    assert np.array_equal(whole[first][which], whole)
    assert len(first) == len(np.unique(whole, axis=0))
    assert all(first[which[row]] <= row for row in range(200))  # the first of its kind


@pytest.mark.parametrize("flag", [True, False])
def test_columns_that_say_the_same_everywhere_tell_nothing_apart(flag: bool) -> None:
    first, which = distinct(np.full(5, 8), np.full(5, flag), np.array([2, 4, 2, 4, 2]))
    assert (first.tolist(), which.tolist()) == ([0, 1], [0, 1, 0, 1, 0])


def test_one_row_is_itself() -> None:
    first, which = distinct(np.array([7]), np.array([True]))
    assert (first.tolist(), which.tolist()) == ([0], [0])


def test_columns_of_unequal_length_are_no_table() -> None:
    check_rows({"tensor": np.arange(3), "is_last": np.ones(3, dtype=bool)})
    with pytest.raises(AssertionError, match="'tensor': 3, 'data': 2"):
        check_rows({"tensor": np.arange(3), "data": np.arange(2)})


def test_plans_whose_columns_differ_in_length_are_no_table() -> None:
    plans = columns_of([Plan(tensor_parallel=2), Plan(tensor_parallel=4)])
    assert len(plans) == 2
    with pytest.raises(AssertionError, match="'data_parallel': 3"):
        replace(plans, data_parallel=np.array([1, 2, 3]))


@pytest.mark.parametrize("values", [(), (3,), (0, 7, 7), (9, 4, 2)])
def test_rows_of_some_values_are_those_that_numpy_finds(values: tuple[int, ...]) -> None:
    column = np.random.default_rng(1).integers(0, 8, (40, 2))
    assert is_among(column, values).tolist() == np.isin(column, values).tolist()
