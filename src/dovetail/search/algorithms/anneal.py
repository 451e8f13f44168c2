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
        [here] = yield [space.sample(rng)]
        for _ in range(NUM_TRIES):
            if math.isfinite(here.loss):
                break
            [here] = yield [space.sample(rng)]
        temperature = START_FRAC
        while temperature > COLD_FRAC:
            [there] = yield [space.near(here.point, rng)]
            if rng.random() < math.exp(-max(_worse_frac(there, here), 0.0) / temperature):
                here = there
            temperature *= COOLING


def _worse_frac(there: Scored, here: Scored) -> float:
    """How much worse one is than the other; of two that break limits, by how far they do."""
    if math.isinf(there.loss) and math.isinf(here.loss):
        return there.excess_frac - here.excess_frac
    if math.isinf(there.loss) or math.isinf(here.loss):
        return there.loss if math.isinf(there.loss) else -here.loss
    return there.loss / here.loss - 1


algorithms.register("anneal")(Algorithm(search=blind(anneal), summary="simulated annealing with restarts"))
