"""Rows of columns that are alike, found by codes: as NumPy finds them row by row."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.plan.plans import distinct


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
