from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.accuracy.one_scalar import NUM_FITTED, one_scalar, shift
from dovetail.accuracy.ranking import ranking, spearman

TIMES = np.array([1.0, 2.0, 3.0, 4.0])


def test_ranks_agree_disagree_or_say_nothing():
    assert spearman(TIMES, TIMES**2) == pytest.approx(1.0)
    assert spearman(TIMES, -TIMES) == pytest.approx(-1.0)
    assert spearman(TIMES, np.ones(4)) == 0.0


def test_equal_values_share_their_ranks():
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: worked by hand, 4.5 / sqrt(4.5 x 5)
    assert spearman(np.array([1.0, 2.0, 2.0, 3.0]), TIMES) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


@given(st.lists(st.integers(0, 50), min_size=4, max_size=12), st.randoms())
def test_a_correlation_of_ranks_is_symmetric_and_never_beyond_one(values, rng):
    first = np.array(values, dtype=float)
    second = np.array(rng.sample(values, len(values)), dtype=float)
    assert -1 - 1e-12 <= spearman(first, second) <= 1 + 1e-12  # style: a tolerance
    assert spearman(first, second) == pytest.approx(spearman(second, first))
    assert spearman(first, 3 * second + 1) == pytest.approx(spearman(first, second))


def test_the_regret_of_a_pick_is_how_much_longer_it_takes_than_the_best():
    found = ranking(["a"] * 3, np.array([1.0, 1.1, 2.0]), np.array([5.0, 4.0, 6.0]))
    assert found.num_picked == 1
    assert found.regret_frac == found.worst_regret_frac == pytest.approx(0.1)
    assert found.num_ranked == 0  # three are too few to be ranked


def test_jobs_of_one_or_two_plans_are_nothing_to_choose_from():
    assert ranking(["a", "a", "b"], np.array([1.0, 2.0, 3.0]), np.ones(3)).num_picked == 0


def test_groups_count_alike_however_many_plans_they_have():
    groups = ["a"] * 4 + ["b"] * 6
    measured = np.concatenate([TIMES, np.arange(1.0, 7.0)])
    predicted = np.concatenate([TIMES, np.arange(6.0, 0.0, -1.0)])
    found = ranking(groups, measured, predicted)
    assert found.spearman == pytest.approx(0.0)
    assert (found.num_ranked, found.regret_frac, found.worst_regret_frac) == (2, 2.5, 5.0)


def test_a_factor_that_all_rows_share_is_found_on_three_and_leaves_little():
    measured = np.linspace(1.0, 2.0, 20)
    found = one_scalar(["p"] * 20, measured, 1.3 * measured)
    assert found.num_rows == 20
    assert 0 < found.mape_frac < 0.02  # of 30 %: three rows are not all there is to know


def test_errors_that_share_nothing_are_not_made_much_worse():
    rng = np.random.default_rng(1)
    measured = np.ones(400)
    predicted = np.exp(rng.normal(0.0, 0.1, 400))
    plain = float(np.abs(predicted / measured - 1).mean())
    found = one_scalar(["p"] * 400, measured, predicted)
    assert found.mape_frac < 1.2 * plain
    assert found.low_frac <= found.mape_frac <= found.high_frac


def test_publishers_of_three_rows_or_fewer_have_nothing_left_to_judge():
    assert one_scalar(["p"] * NUM_FITTED, np.ones(3), np.ones(3)).num_rows == 0
    both = one_scalar(["p"] * 3 + ["q"] * 5, np.ones(8), np.ones(8))
    assert both.num_rows == 5


def test_a_common_error_is_applied_as_far_as_rows_agree_on_it():
    agreed, apart = shift(np.array([0.3, 0.3, 0.3])), shift(np.array([0.1, 0.3, 0.5]))
    # by hand: 0.075^2 / (0.075^2 + 0.045^2 / 2 / 3) = 0.9434, and with a variance of 0.04 beside it 0.4454
    assert agreed == pytest.approx(0.9434 * 0.3, rel=1e-3)
    assert apart == pytest.approx(0.4454 * 0.3, rel=1e-3)
    assert shift(np.zeros(3)) == 0.0


@given(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3))
def test_a_factor_never_goes_beyond_the_row_in_the_middle_and_mirrors_with_its_rows(values):
    errors = np.array(values)
    found = shift(errors)
    assert abs(found) <= abs(float(np.median(errors)))
    assert found == pytest.approx(-shift(-errors))
