from __future__ import annotations

import numpy as np

from dovetail.step.hops import hop_kinds, hops_before, num_kinds, sending_kinds

PARTS = (0, 0, 1, 1, 0)


def test_equal_devices_have_one_kind_of_hop():
    assert num_kinds(()) == 1
    assert hops_before(4, ()).tolist() == [[0], [1], [2], [3]]
    assert hop_kinds(np.array([0, 2]), np.array([1, 2]), ()).tolist() == [0, -1]


def test_a_hop_is_of_the_part_that_both_stages_are_on_or_between_two():
    assert num_kinds(PARTS) == 3
    assert hop_kinds(np.arange(4), np.arange(1, 5), PARTS).tolist() == [0, 2, 1, 2]
    assert hops_before(5, PARTS).tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1], [1, 1, 2]]


def test_the_ends_of_a_pipeline_count_the_hop_they_have_unless_it_goes_round():
    on, back = sending_kinds((0, 0, 1, 1), goes_round=False)
    assert on.tolist() == [0, 2, 1, 1]
    assert back.tolist() == [0, 0, 2, 1]
    on, back = sending_kinds((0, 0, 1, 1), goes_round=True)
    assert on.tolist() == [0, 2, 1, 2]
    assert back.tolist() == [2, 0, 2, 1]
