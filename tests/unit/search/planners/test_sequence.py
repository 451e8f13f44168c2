"""Stages over layers of several kinds, worked out by hand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.search.planners import sequence
from dovetail.search.planners.sequence import SequenceLoads, balanced_sequence

ONE = np.ones((1, 1))
UNEVEN = np.array([[[[1.0, 40.0]]]])


def loads(kinds, num_stages=3, num_plans=1, **changed):
    """Kind 0 takes 1 s, kind 1 takes 3 s; recomputed 2 s and 5 s; there is room for everything."""
    given = {
        "kinds": np.array(kinds, dtype=np.int64),
        "is_stage": np.ones((num_plans, num_stages), dtype=bool),
        "in_flight": np.arange(num_stages, 0.0, -1.0)[None],
        "memory_bytes": 1e6 * ONE,
        "fixed_s": 0 * ONE,
        "fixed_bytes": 0 * ONE,
        "recompute_bytes": 0 * ONE,
        "unit_bytes": np.array([[[1.0, 1.0]]]),
        "full_s": np.array([[[2.0, 5.0]]]),
        "full_bytes": np.array([[[0.0, 0.0]]]),
        "unit_s": np.array([[[[1.0, 3.0]]]]),
        "kept_bytes": np.array([[[[1.0, 2.0]]]]),
    }
    return SequenceLoads(**{**given, **changed})


def test_dense_layers_before_experts_make_the_first_stage_longer():
    found = balanced_sequence(loads([0, 0, 0, 1, 1, 1]))
    assert found.num_units.tolist() == [[4, 1, 1]]
    assert found.pace_s[0] == 6


def test_the_order_of_kinds_counts():
    found = balanced_sequence(loads([1, 0, 0, 0, 1, 1]))
    assert found.num_units.tolist() == [[3, 2, 1]]
    assert balanced_sequence(loads([0, 1, 0, 1, 0, 1])).num_units.tolist() == [[2, 2, 2]]


def test_the_first_units_of_a_stage_are_recomputed_until_it_fits():
    """Held: 3 + 2 x (1 + 2 + 2) = 13 bytes; the first two units recomputed save 2 and 4."""
    found = balanced_sequence(loads([0, 1, 1], num_stages=1, in_flight=2 * ONE, memory_bytes=8 * ONE))
    assert found.num_recomputed.tolist() == [[2]]
    assert found.pace_s[0] == 2 + 5 + 3


def test_a_stage_far_longer_than_the_even_share_is_found():
    found = balanced_sequence(loads([0] * 30 + [1, 1], full_s=np.array([[[2.0, 90.0]]]), unit_s=UNEVEN))
    assert found.num_units.tolist() == [[30, 1, 1]]


def test_what_does_not_fit_says_so():
    assert balanced_sequence(loads([0, 1, 1], memory_bytes=0.5 * ONE)).fits.tolist() == [False]
    assert balanced_sequence(loads([0, 1])).fits.tolist() == [False]
    assert balanced_sequence(loads([0, 1], min_units=0)).fits.tolist() == [True]


def test_no_plans_have_no_answers():
    assert balanced_sequence(loads([0, 1], num_plans=0)).fits.shape == (0,)


def test_a_large_batch_is_cut_and_put_together_again(monkeypatch):
    rng = np.random.default_rng(5)
    many = loads([0, 0, 1, 1, 1, 0, 1], num_plans=20, fixed_s=rng.random((20, 3)))
    whole = balanced_sequence(many)
    monkeypatch.setattr(sequence, "TABLE_ELEMENTS", 100)
    assert np.array_equal(balanced_sequence(many).num_units, whole.num_units)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kinds": np.array([0, 2])}, "one of 2 kinds"),
        ({"fixed_s": -ONE}, "fixed_s must be at least 0"),
        ({"unit_bytes": np.ones((1, 1, 3))}, "unit_bytes must broadcast"),
        ({"full_s": np.array([[[0.5, 5.0]]])}, "no faster"),
        ({"full_bytes": np.array([[[0.0, 3.0]]])}, "keep no more"),
        ({"kept_bytes": np.ones((1, 1, 2, 2))}, "as many policies"),
        ({"min_units": -1}, "min_units must be at least 0"),
    ],
)
def test_arrays_that_do_not_make_a_plan_are_refused(changed, said):
    with pytest.raises(InvalidInput, match=said):
        loads(**{"kinds": [0, 1], **changed})
