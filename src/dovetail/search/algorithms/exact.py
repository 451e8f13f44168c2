"""Best first by a bound: the answer is the best of the space, and is known to be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Bound, Search, algorithms
from dovetail.search.space import Point, Space

NUM_AT_ONCE = 8


def by_bound(space: Space, _: Random, bound: Bound) -> Iterator[Point]:
    """All points, the one with the least bound first."""
    points = list(space.points())
    return (points[place] for place in np.argsort(bound(points), kind="stable"))


def best_first(space: Space, _: Random, bound: Bound, num_best: int = 1) -> Search:
    """Points in the order of their bounds, until the next bound is no better than the last of the best found."""
    points = list(space.points())
    lower_bounds = bound(points)
    order = np.argsort(lower_bounds, kind="stable")
    best = [math.inf] * num_best
    for start in range(0, len(order), NUM_AT_ONCE):
        ahead = [int(place) for place in order[start : start + NUM_AT_ONCE] if lower_bounds[place] < best[-1]]
        if not ahead:
            return
        scored = yield [points[place] for place in ahead]
        best = sorted([*best, *(one.loss for one in scored)])[:num_best]


def proving(num_best: int) -> Algorithm:
    """The exact search, gone on until the `num_best` best points are known to be that."""
    return replace(algorithms["exact"], search=partial(best_first, num_best=num_best))


algorithms.register("exact")(
    Algorithm(
        search=best_first, summary="best first by a bound, to a proof", is_exact=True, draws=False, order=by_bound
    )
)
