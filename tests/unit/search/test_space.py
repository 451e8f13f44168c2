"""Points of a space: all of them, drawn ones, neighbours, and as numbers."""

from __future__ import annotations

from random import Random

import pytest

from dovetail.errors import InvalidInput
from dovetail.search.space import Knob, Space

SPACE = Space(knobs=(Knob(name="a", values=(1, 2, 4)), Knob(name="b", values=(8,)), Knob(name="c", values=(1, 16))))


def test_a_space_holds_every_combination_once():
    points = list(SPACE.points())
    assert len(points) == len(set(points)) == SPACE.num_points == 6
    assert SPACE.values((2, 0, 1)) == (4, 8, 16)


def test_neighbours_turn_one_knob_by_one_step():
    rng = Random(1)
    for _ in range(50):
        here = SPACE.sample(rng)
        there = SPACE.near(here, rng)
        assert sum(abs(a - b) for a, b in zip(here, there, strict=True)) == 1
        assert there[1] == 0


def test_a_space_of_one_point_has_itself_as_neighbour():
    only = Space(knobs=(Knob(name="a", values=(3,)),))
    assert only.near((0,), Random(0)) == (0,)


def test_features_are_octaves_from_none_to_all():
    assert SPACE.features([(0, 0, 0), (1, 0, 0), (2, 0, 1)]).tolist() == [[0, 0, 0], [0.5, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize("values", [(), (0, 1), (2, 1), (1, 1)])
def test_values_rise_from_one(values):
    with pytest.raises(InvalidInput, match="a"):
        Knob(name="a", values=values)
