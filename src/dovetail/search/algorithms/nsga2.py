"""Optuna's NSGA-II: the loss and a second figure kept small together."""

from __future__ import annotations

from random import Random

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.algorithms._optuna import logarithm, sampled
from dovetail.search.space import Space

NUM_ALIVE = 20  # estimate: budgets of hundreds of evaluations leave some ten generations


def nsga2(space: Space, rng: Random) -> Search:
    """A genetic search for the front of two aims (Deb et al., IEEE TEC 2002): the loss, and the first of `also`."""
    return sampled(
        space,
        rng,
        lambda samplers, seed: samplers.NSGAIISampler(seed=seed, population_size=NUM_ALIVE),
        _aims,
        num_bisections=2,
    )


def _aims(scored: Scored) -> tuple[float, ...]:
    second = scored.also[0] if scored.also else scored.loss
    return (logarithm(scored.loss, scored), logarithm(second, scored))


algorithms.register("nsga2")(
    Algorithm(search=blind(nsga2), summary="Optuna's NSGA-II over loss and power", extra="search")
)
