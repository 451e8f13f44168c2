"""Every search algorithm asks for points of the space, learns from what it is told, and repeats with its seed."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

from dovetail.search.algorithms import Scored, algorithms, unforeseen
from dovetail.search.space import Knob, Space

NAMES = ("num_tensor", "num_rows", "num_cols", "num_vector", "num_lanes")
SPACE = Space(knobs=tuple(Knob(name=name, values=(1, 2, 4, 8, 16, 32)) for name in NAMES))
LIMIT = 19


def told(point):
    """A valley with its best at (3, 4, 1, 5, 2), walls where the sum is too large, and a hint where counts are low."""
    if sum(point) > LIMIT:
        return Scored(point=point, loss=math.inf, excess_frac=sum(point) / LIMIT - 1)
    loss = 1.0 + sum((a - b) ** 2 for a, b in zip(point, (3, 4, 1, 5, 2), strict=True))
    bottleneck = "num_tensor" if point[0] < 3 else "num_vector" if point[3] < 5 else ""
    return Scored(point=point, loss=loss, also=(1.0 + sum(point),), bottleneck=bottleneck)


def bound(points):
    return np.array([told(point).loss * 0.9 for point in points])


def loose(points):
    return bound(points) / 8


def walked(name, seed, num_points=150, low=bound):
    search = algorithms[name].search(SPACE, Random(seed), low)
    asked = next(search)
    seen: list[Scored] = []
    while len(seen) < num_points:
        seen += [told(point) for point in asked]
        try:
            asked = search.send(seen[-len(asked) :])
        except StopIteration:
            break
    return seen


@pytest.mark.parametrize("name", algorithms.names())
def test_all_that_is_asked_for_lies_in_the_space(name):
    for one in walked(name, 1):
        assert len(one.point) == len(NAMES)
        assert all(0 <= index < 6 for index in one.point)


@pytest.mark.parametrize("name", algorithms.names())
def test_the_same_seed_asks_the_same(name):
    assert walked(name, 2, 60) == walked(name, 2, 60)


@pytest.mark.parametrize("name", [n for n in algorithms.names() if n not in ("random", "grid")])
def test_a_search_that_learns_does_better_than_the_mean_of_what_it_begins_with(name):
    seen = walked(name, 3, num_points=300)
    first = np.mean([min(told(SPACE.sample(Random(draw))).loss, 60.0) for draw in range(200)])
    assert min(one.loss for one in seen) < first / 2


@pytest.mark.parametrize("name", [n for n, algorithm in algorithms.items() if algorithm.is_exact])
def test_an_exact_search_ends_with_the_best_point(name):
    seen = walked(name, 4, num_points=SPACE.num_points + 1)
    assert len(seen) < SPACE.num_points / 2
    assert min(one.loss for one in seen) == min(told(point).loss for point in SPACE.points())


@pytest.mark.parametrize("name", [n for n, algorithm in algorithms.items() if algorithm.order is not unforeseen])
def test_an_order_that_is_known_ahead_is_what_is_asked_for(name):
    seen = [one.point for one in walked(name, 5, num_points=400, low=loose)]
    assert len(seen) > 50
    ahead = algorithms[name].order(SPACE, Random(5), loose)
    assert seen == list(itertools.islice(ahead, len(seen)))


def test_some_orders_are_known_ahead():
    assert {n for n, algorithm in algorithms.items() if algorithm.order is not unforeseen} >= {
        "exact",
        "random",
        "grid",
    }
