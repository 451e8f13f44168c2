"""Simulated annealing."""

from __future__ import annotations

import math
from random import Random

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.space import Space

START_FRAC = 0.2  # a neighbour so much worse is taken with a chance of 1/e at the start
COOLING = 0.98  # of the temperature, each step
COLD_FRAC = 0.0001  # from here on it starts again elsewhere
NUM_TRIES = 64  # for a place to start that keeps the limits


def anneal(space: Space, rng: Random) -> Search:
    """Takes a worse neighbour with a chance that shrinks as it cools; starts again when cold.

    Losses are compared as ratios, so the same temperatures serve any unit.
    """
    while True:
        [current] = yield [space.sample(rng)]
        for _ in range(NUM_TRIES):
            if math.isfinite(current.loss):
                break
            [current] = yield [space.sample(rng)]
        temperature = START_FRAC
        while temperature > COLD_FRAC:
            [neighbour] = yield [space.near(current.point, rng)]
            if rng.random() < math.exp(-max(_worse_frac(neighbour, current), 0.0) / temperature):
                current = neighbour
            temperature *= COOLING


def _worse_frac(neighbour: Scored, current: Scored) -> float:
    """How much worse one is than the other; of two that break limits, by how far they do."""
    if math.isinf(neighbour.loss) and math.isinf(current.loss):
        return neighbour.excess_frac - current.excess_frac
    if math.isinf(neighbour.loss) or math.isinf(current.loss):
        return neighbour.loss if math.isinf(neighbour.loss) else -current.loss
    return neighbour.loss / current.loss - 1


algorithms.register("anneal")(Algorithm(search=blind(anneal), summary="simulated annealing with restarts"))
