"""A coarse grid first, then finer ones: even cover of the space at any budget."""

from __future__ import annotations

import itertools
from random import Random

from dovetail.search.algorithms import Algorithm, Search, algorithms, blind, foreseen
from dovetail.search.space import Point, Space


def grid(space: Space, rng: Random) -> Search:
    """Every 8th value of each knob, then every 4th, every 2nd, and all; each point once, coarse ones in any order."""
    seen: set[Point] = set()
    for step in (8, 4, 2, 1):
        columns = [_places(len(knob.values), step) for knob in space.knobs]
        level = [point for point in itertools.product(*columns) if point not in seen]
        rng.shuffle(level)
        for point in level:
            seen.add(point)
            yield [point]


def _places(num_values: int, step: int) -> tuple[int, ...]:
    """Every `step`-th place, and the last."""
    return tuple(sorted({*range(0, num_values, step), num_values - 1}))


algorithms.register("grid")(
    Algorithm(search=blind(grid), summary="a coarse grid of the space, then finer ones", order=foreseen(grid))
)
