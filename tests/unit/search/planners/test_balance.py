"""Layers and recompute by stage, worked out by hand, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.search.planners import balance
from dovetail.search.planners.balance import StageLoads, balanced

ONE = np.ones((1, 1))


def loads(num_units, num_stages=4, **changed):
    """A pipeline of alike stages with room for everything, 2 s a unit, 3 s when recomputed."""
    given = {
        "num_units": np.atleast_1d(num_units),
        "is_stage": np.ones((1, num_stages), dtype=bool),
        "in_flight": np.arange(num_stages, 0.0, -1.0)[None],
        "memory_bytes": 1e6 * ONE,
        "fixed_s": 0 * ONE,
        "fixed_bytes": 0 * ONE,
        "unit_bytes": ONE,
        "full_s": 3 * ONE,
        "full_bytes": 0 * ONE,
        "recompute_bytes": 0 * ONE,
        "unit_s": np.array([[[2.0]]]),
        "kept_bytes": np.array([[[1.0]]]),
    }
    return StageLoads(**{**given, **changed})


def test_alike_stages_share_evenly():
    found = balanced(loads(12))
    assert found.num_units.tolist() == [[3, 3, 3, 3]]
    assert found.pace_s[0] == 6
    assert found.sum_s[0] == 24


def test_a_head_of_one_units_time_takes_one_unit_from_the_last_stage():
    found = balanced(loads(11, fixed_s=np.array([[0.0, 0.0, 0.0, 2.0]])))
    assert found.num_units.tolist() == [[3, 3, 3, 2]]


def test_as_few_units_as_memory_allows_are_recomputed():
    """Three units and four microbatches under way: 3 + 12 bytes, of which two recomputed units save 8."""
    found = balanced(loads(3, num_stages=1, in_flight=4 * ONE, memory_bytes=8.0 * ONE))
    assert found.num_recomputed.tolist() == [[2]]
    assert found.stage_s.tolist() == [[8]]


def test_units_move_to_later_stages_where_that_saves_recompute():
    """Even shares would recompute two units on the first two stages; at the same pace three are enough."""
    found = balanced(loads(12, memory_bytes=8.0 * ONE))
    assert found.pace_s[0] == 8
    assert found.num_units.tolist() == [[3, 2, 3, 4]]
    assert found.num_recomputed.tolist() == [[2, 0, 1, 0]]


def test_what_recomputing_needs_beside_is_counted():
    found = balanced(loads(3, num_stages=1, in_flight=4 * ONE, memory_bytes=8.0 * ONE, recompute_bytes=1.5 * ONE))
    assert found.num_recomputed.tolist() == [[3]]


def test_a_lighter_policy_is_taken_where_it_is_the_faster_way_to_fit():
    found = balanced(
        loads(12, memory_bytes=12.0 * ONE, unit_s=np.array([[[2.0, 2.1]]]), kept_bytes=np.array([[[1.0, 0.7]]]))
    )
    assert found.policy.tolist() == [[1, 0, 0, 0]]
    assert found.num_recomputed.tolist() == [[0, 0, 0, 0]]


def test_a_slow_chip_holds_fewer_units():
    found = balanced(loads(10, unit_s=np.array([[[4.0], [2.0], [2.0], [2.0]]]), full_s=9 * ONE))
    assert found.pace_s[0] == 6
    assert found.num_units.tolist() == [[1, 3, 3, 3]]


def test_one_stage_may_take_nearly_everything():
    """Far beyond the even share, so that more units must be looked at than at first."""
    found = balanced(loads(40, unit_s=np.array([[[90.0], [1.0], [90.0], [90.0]]]), full_s=99 * ONE))
    assert found.num_units.tolist() == [[1, 37, 1, 1]]


def test_memory_that_holds_too_little_does_not_fit():
    found = balanced(loads(12, memory_bytes=2.0 * ONE))
    assert found.fits.tolist() == [False]


def test_fewer_units_than_stages_do_not_fit_unless_stages_may_be_empty():
    assert balanced(loads(3)).fits.tolist() == [False]
    assert balanced(loads(3, min_units=0)).fits.tolist() == [True]


def test_a_large_batch_is_cut_and_put_together_again(monkeypatch):
    rng = np.random.default_rng(3)
    many = loads(
        np.full(50, 12),
        is_stage=np.ones((50, 4), dtype=bool),
        memory_bytes=rng.uniform(6, 20, (50, 1)),
        fixed_s=rng.random((50, 4)),
    )
    whole = balanced(many)
    monkeypatch.setattr(balance, "TABLE_ELEMENTS", 100)
    parts = balanced(many)
    assert np.array_equal(whole.num_units, parts.num_units)
    assert np.array_equal(whole.pace_s, parts.pace_s)
    assert whole.num_recomputed.sum() > 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fixed_s": -ONE}, "fixed_s must be at least 0"),
        ({"fixed_s": np.ones((1, 3))}, "fixed_s must broadcast"),
        ({"unit_s": np.ones((1, 1))}, "unit_s must broadcast"),
        ({"unit_s": np.ones((1, 1, 2))}, "as many policies"),
        ({"full_s": ONE}, "must not be faster"),
        ({"min_units": -1}, "min_units must be at least 0"),
        ({"is_stage": np.ones((3, 4), dtype=bool)}, "a row a plan"),
    ],
)
def test_arrays_that_do_not_make_a_plan_are_refused(changed, said):
    with pytest.raises(InvalidInput, match=said):
        loads(12, **changed)


def test_rows_are_plans():
    both = loads([12, 8], is_stage=np.ones((2, 4), dtype=bool))
    assert balanced(both.rows(slice(1, 2))).num_units.tolist() == [[2, 2, 2, 2]]
    assert replace(both, min_units=0).min_units == 0
