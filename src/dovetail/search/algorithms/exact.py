"""Best first by a bound: the answer is the best of the space, and is known to be."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Bound, Search, algorithms
from dovetail.search.space import Space

NUM_AT_ONCE = 8


def best_first(space: Space, _: Random, bound: Bound) -> Search:
    """Points in the order of their bounds, until the next bound is no better than the best found."""
    points = list(space.points())
    lows = bound(points)
    order = np.argsort(lows, kind="stable")
    best = math.inf
    for start in range(0, len(order), NUM_AT_ONCE):
        ahead = [int(place) for place in order[start : start + NUM_AT_ONCE] if lows[place] < best]
        if not ahead:
            return
        told = yield [points[place] for place in ahead]
        best = min(best, *(one.loss for one in told))


algorithms.register("exact")(Algorithm(search=best_first, summary="best first by a bound, to a proof", is_exact=True))
