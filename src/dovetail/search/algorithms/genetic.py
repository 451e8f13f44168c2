"""A genetic search in the manner of ConfuciuX's second phase (Kao, Jeong and Krishna, MICRO 2020)."""

from __future__ import annotations

from random import Random

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.space import Point, Space

NUM_ALIVE = 20  # estimate: ConfuciuX fine-tunes with small populations
ELITE_FRAC = 0.2
MUTATE_FRAC = 0.3  # of children: a knob drawn again
STEP_FRAC = 0.5  # of children: a knob turned a step, its local mutation


def genetic(space: Space, rng: Random) -> Search:
    """The best survive and have children of two parents, knob by knob; children change a knob, far or by a step."""
    alive = yield [space.sample(rng) for _ in range(NUM_ALIVE)]
    num_elite = max(2, round(ELITE_FRAC * NUM_ALIVE))
    while True:
        alive = sorted(alive, key=_fitness)
        parents = alive[: NUM_ALIVE // 2]
        children = [_child(space, rng, *rng.sample(parents, 2)) for _ in range(NUM_ALIVE - num_elite)]
        born = yield children
        alive = alive[:num_elite] + born


def _fitness(one: Scored) -> tuple[float, float]:
    return (one.loss, one.excess_frac)


def _child(space: Space, rng: Random, mother: Scored, father: Scored) -> Point:
    child: Point = tuple(rng.choice(pair) for pair in zip(mother.point, father.point, strict=True))
    if rng.random() < MUTATE_FRAC:
        place = rng.randrange(len(child))
        child = (*child[:place], space.sample(rng)[place], *child[place + 1 :])
    if rng.random() < STEP_FRAC:
        child = space.near(child, rng)
    return child


algorithms.register("genetic")(Algorithm(search=blind(genetic), summary="a genetic search, as ConfuciuX fine-tunes"))
