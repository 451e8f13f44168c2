"""Points drawn without looking: what every other search must beat."""

from __future__ import annotations

from random import Random

from dovetail.search.algorithms import Algorithm, Search, algorithms, blind, foreseen
from dovetail.search.space import Point, Space


def random_search(space: Space, rng: Random) -> Search:
    """Each point once, in an order drawn at random."""
    seen: set[Point] = set()
    while len(seen) < space.num_points:
        point = space.sample(rng)
        if point not in seen:
            seen.add(point)
            yield [point]


algorithms.register("random")(
    Algorithm(search=blind(random_search), summary="points drawn at random, each once", order=foreseen(random_search))
)
