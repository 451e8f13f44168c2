"""WHAM's exact mode: counts of every size on its walk by a proof, and nothing asked that cannot improve."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from dovetail.search.algorithms import Scored, algorithms
from dovetail.search.space import Knob, Space

SPACE = Space(
    knobs=tuple(Knob(name=name, values=(1, 2, 4, 8)) for name in ("num_tensor", "num_rows", "num_vector", "num_lanes"))
)
BEST = {(3, 3): 5.0, (2, 3): 4.0, (1, 3): 3.0, (3, 2): 9.0}  # loss at the best counts, by rows and lanes


def loss(point):
    """Rows 1 with lanes 3 are best, with counts (2, 1); more than 5 cores in all break a limit."""
    tensor, rows, vector, lanes = point
    if tensor + vector > 5:
        return math.inf
    return BEST.get((rows, lanes), 20.0) + abs(tensor - 2) + abs(vector - 1)


def walked(share):
    """All points that are asked for, with bounds that are `share` of the loss."""
    search = algorithms["critical-path-exact"].search(SPACE, Random(1), lambda points: share * lows(points))
    asked, seen = next(search), []
    while asked:
        seen += asked
        try:
            asked = search.send([Scored(point=point, loss=loss(point)) for point in asked])
        except StopIteration:
            break
    return seen


def lows(points):
    return np.array([loss(point) for point in points])


def test_the_best_counts_of_every_size_that_improves_are_found():
    seen = walked(0.6)
    assert {(2, 3, 1, 3), (2, 2, 1, 3), (2, 1, 1, 3)} <= set(seen)
    assert min(map(loss, seen)) == min(loss(point) for point in SPACE.points()) == 3.0
    assert all(math.isfinite(loss(point)) for point in seen)
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("share", [1.0, 0.99])
def test_tight_bounds_leave_one_design_a_size_and_none_where_nothing_can_improve(share):
    assert set(walked(share)) == {(2, 3, 1, 3), (2, 2, 1, 3), (2, 1, 1, 3)}


def test_a_size_that_has_no_room_is_passed_through():
    def bound(points):
        return np.array([math.inf if point[1] == 3 else loss(point) for point in points])

    search = algorithms["critical-path-exact"].search(SPACE, Random(1), bound)
    assert next(search) == [(2, 2, 1, 3)]
