"""Laws of scores: they hold whatever the rows are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.accuracy.compared import Compared, score

AMOUNTS = st.floats(1e-9, 1e9)
ROWS = st.lists(
    st.builds(lambda m, p: Compared(set="s", kind="k", what="", measured=m, predicted=p, unit="s"), AMOUNTS, AMOUNTS),
    min_size=1,
    max_size=30,
)


@given(ROWS)
def test_statistics_are_in_order(rows):
    found = score(rows)
    assert 0 <= found.median_frac <= found.p90_frac * (1 + 1e-12) <= found.worst_frac * (1 + 1e-12)
    assert abs(found.bias_frac) <= found.mape_frac * (1 + 1e-12)
    assert found.mape_frac <= found.worst_frac * (1 + 1e-12)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, rng):
    shuffled = list(rows)
    rng.shuffle(shuffled)
    one, other = score(rows), score(shuffled)
    assert one.mape_frac == pytest.approx(other.mape_frac)
    assert (one.median_frac, one.p90_frac) == (other.median_frac, other.p90_frac)


@given(ROWS, st.floats(1e-3, 1e3))
def test_the_unit_that_rows_are_in_does_not_matter(rows, scale):
    scaled = [replace(row, measured=row.measured * scale, predicted=row.predicted * scale) for row in rows]
    assert score(scaled).mape_frac == pytest.approx(score(rows).mape_frac, rel=1e-9, abs=1e-9)


@given(ROWS)
def test_a_perfect_prediction_scores_nothing_and_every_row_twice_changes_no_mean(rows):
    perfect = score([replace(row, predicted=row.measured) for row in rows])
    assert (perfect.mape_frac, perfect.bias_frac, perfect.worst_frac) == (0, 0, 0)
    assert score(rows + rows).mape_frac == pytest.approx(score(rows).mape_frac)


@given(ROWS, st.integers(0, 40))
def test_the_worst_rows_are_the_worst_and_no_more_than_asked_for(rows, num_worst):
    found = score(rows, num_worst)
    assert len(found.worst) == min(num_worst, len(rows))
    sizes = [abs(row.error_frac) for row in found.worst]
    assert sizes == sorted(sizes, reverse=True)
    if sizes:
        assert sizes[0] == pytest.approx(found.worst_frac)
