"""Whatever a search says of a point comes back to the last bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.search.algorithms import Scored
from dovetail.store.rows import DamagedRow, point_bytes, point_of, row_of, scored_rows

POINTS = st.lists(st.integers(0, 2**40), max_size=12).map(tuple)
NUMBERS = st.floats(allow_nan=False)
SCORED = st.builds(
    Scored,
    point=POINTS,
    loss=NUMBERS.filter(lambda loss: loss > float("-inf")),
    excess_frac=st.floats(0, 10),
    also=st.lists(NUMBERS, max_size=8).map(tuple),
    bottleneck=st.sampled_from(["", "num_tensor"]),
    plan=st.text(st.characters(codec="utf-8")),
)


@given(POINTS, POINTS)
def test_two_points_have_one_text_only_if_they_are_one(one, other):
    assert point_of(point_bytes(one)) == one
    assert (point_bytes(one) == point_bytes(other)) == (one == other)


@given(SCORED, st.integers(0, 2**32 - 1))
def test_a_row_comes_back_as_it_was(one, seed):
    assert list(scored_rows([row_of(one, seed)], seed)) == [one]


@given(SCORED, st.data())
def test_a_bit_turned_in_the_numbers_never_passes(one, data):
    point, loss, told, bottleneck, plan = row_of(one, 1)
    bit = data.draw(st.integers(0, 8 * len(told) - 1))
    turned = bytearray(told)
    turned[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedRow):
        list(scored_rows([(point, loss, bytes(turned), bottleneck, plan)], 1))
