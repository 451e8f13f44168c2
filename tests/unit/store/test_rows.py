"""A row of a store says what was written, or that it is damaged."""

from __future__ import annotations

import math

import pytest

from dovetail.search.algorithms import Scored
from dovetail.store.rows import DamagedRow, point_bytes, point_of, row_of, scored_rows

ONE = Scored(point=(1, 127), loss=0.1, also=(280.0, math.inf), bottleneck="num_vector", plan='{"tensor_parallel": 8}')
BEYOND = Scored(point=(0, 0), loss=math.inf, excess_frac=0.5)


def test_small_indices_take_a_byte_and_large_ones_more():
    assert point_bytes((0, 5, 127)) == b"\x00\x05\x7f"
    assert point_bytes((128, 1)) == b"\x80\x01\x01"
    assert point_of(b"\x80\x01\x01") == (128, 1)
    assert point_of(point_bytes(())) == ()


@pytest.mark.parametrize("one", [ONE, BEYOND])
def test_a_row_is_what_was_written(one):
    assert list(scored_rows([row_of(one, 7)], 7)) == [one]


def test_a_design_beyond_a_limit_has_no_loss_for_sql():
    assert row_of(BEYOND, 7)[1] is None
    assert row_of(ONE, 7)[1] == 0.1


@pytest.mark.parametrize("place", range(5))
def test_a_row_with_anything_changed_is_damaged(place):
    changed = (b"\x02\x7f", 0.2, bytes(36), "num_tensor", "{}")
    row = row_of(ONE, 7)
    with pytest.raises(DamagedRow):
        list(scored_rows([(*row[:place], changed[place], *row[place + 1 :])], 7))  # type: ignore[list-item]


@pytest.mark.parametrize("told", [b"", b"abc", bytes(21), 5, None])
def test_numbers_of_another_length_or_type_are_damaged(told):
    point, loss, _, bottleneck, plan = row_of(ONE, 7)
    with pytest.raises(DamagedRow):
        list(scored_rows([(point, loss, told, bottleneck, plan)], 7))


def test_a_row_of_another_study_is_damaged():
    with pytest.raises(DamagedRow):
        list(scored_rows([row_of(ONE, 8)], 7))


def test_plans_that_repeat_are_held_once():
    rows = [row_of(Scored(point=(index,), loss=1.0, plan="".join(("{", "}"))), 7) for index in range(3)]
    found = list(scored_rows(((*row[:4], "".join(list(row[4]))) for row in rows), 7))
    assert len({id(one.plan) for one in found}) == 1
