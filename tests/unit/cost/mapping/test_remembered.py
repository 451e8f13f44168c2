"""What was computed is given again for equal arguments, and for no others; it cannot be written into."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dovetail.cost.mapping import remembered as own
from dovetail.cost.mapping.remembered import remembered, remembered_columns
from dovetail.workload.graph import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Of either side."""

    a: FloatArray
    b: FloatArray


ASKED = Columns(a=np.array([1.0, 2.0]), b=np.array([3.0, 4.0]))


@pytest.fixture
def counted():
    calls = []

    @remembered
    def summed(columns: Columns, scale: float) -> Columns:
        calls.append(columns)
        return Columns(a=columns.a * scale, b=columns.a + columns.b)

    return summed, calls


def test_equal_arguments_are_answered_once_and_others_anew(counted):
    summed, calls = counted
    first = summed(ASKED, 2.0)
    assert summed(replace(ASKED, a=ASKED.a.copy()), 2.0) is first
    assert len(calls) == 1
    for other in ((ASKED, 3.0), (replace(ASKED, b=ASKED.a), 2.0), (Columns(a=ASKED.b, b=ASKED.a), 2.0)):
        assert summed(*other).a.tolist() == (other[0].a * other[1]).tolist()
    assert len(calls) == 4


def test_nobody_writes_into_an_answer(counted):
    with pytest.raises(ValueError, match="read-only"):
        counted[0](ASKED, 2.0).a[0] = 7.0


def test_what_grows_too_large_is_forgotten(counted, monkeypatch):
    summed, calls = counted
    monkeypatch.setattr(own, "MOST_BYTES", 2.5 * 32)  # of two answers
    for scale in (1.0, 2.0, 1.0, 3.0, 3.0, 1.0):
        summed(ASKED, scale)
    assert len(calls) == 4  # of 1, 2, 3, and of 1 once more
    monkeypatch.setattr(own, "MOST_BYTES", 16)
    summed(ASKED, 5.0)
    summed(ASKED, 5.0)
    assert len(calls) == 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows by columns."""

    product: FloatArray
    place: IntArray


@pytest.fixture
def gridded():
    calls = []

    @remembered_columns
    def grid(rows: FloatArray, columns: Columns, scale: float) -> Grid:
        calls.append(columns.a.tolist())
        product = rows[:, None] * columns.a * scale + columns.b
        return Grid(product=product, place=np.floor(product).astype(np.int64))

    return grid, calls


ROWS = np.array([0.1, 0.7, 3.0])


def check_grid(grid, a, b, scale=1.0):
    columns = Columns(a=np.array(a), b=np.array(b))
    found, product = grid(ROWS, columns, scale), ROWS[:, None] * columns.a * scale + columns.b
    assert found.product.tolist() == product.tolist()
    assert found.place.tolist() == np.floor(product).tolist()
    assert (found.product.dtype, found.place.dtype) == (np.float64, np.int64)
    assert found.product.flags.c_contiguous
    return found


def test_columns_that_were_there_before_are_not_computed_again_in_whatever_order(gridded):
    grid, calls = gridded
    check_grid(grid, [1.0, 2.0], [3.0, 4.0])
    check_grid(grid, [5.0, 2.0, 1.0, 6.0], [7.0, 4.0, 3.0, 8.0])
    check_grid(grid, [6.0, 1.0], [8.0, 3.0])
    assert calls == [[1.0, 2.0], [5.0, 6.0]]
    check_grid(grid, [1.0], [4.0])  # another column: one of its numbers is another
    check_grid(grid, [1.0], [3.0], scale=2.0)  # another table
    assert calls[2:] == [[1.0], [1.0]]
    check_grid(grid, [9.0, 9.0, 1.0], [9.0, 9.0, 3.0])  # the same twice
    check_grid(grid, [1.0, 9.0, 2.0], [3.0, 9.0, 4.0])
    assert calls[4:] == [[9.0]]


def test_whoever_writes_into_an_answer_of_columns_spoils_no_other(gridded):
    grid, _ = gridded
    for a in ([1.0, 2.0], [1.0, 2.0], [2.0, 3.0], [3.0]):
        check_grid(grid, a, a).product[:] = -1.0


def test_columns_that_grow_too_many_are_forgotten(gridded, monkeypatch):
    grid, calls = gridded
    one_bytes = 2 * len(ROWS) * 8
    monkeypatch.setattr(own, "MOST_BYTES", 4 * one_bytes)  # room is for twice those that are there
    for a in (1.0, 2.0, 1.0):
        check_grid(grid, [a], [a])
    assert len(calls) == 2
    for a in (3.0, 1.0, 2.0):  # of the third there is room for six
        check_grid(grid, [a], [a])
    assert calls[2:] == [[3.0], [1.0], [2.0]]
    monkeypatch.setattr(own, "MOST_BYTES", one_bytes - 1)
    for _ in range(2):
        check_grid(grid, [4.0], [4.0], scale=7.0)
    assert calls[5:] == [[4.0], [4.0]]
