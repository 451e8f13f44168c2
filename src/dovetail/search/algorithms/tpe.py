"""Optuna's tree-structured Parzen estimator."""

from __future__ import annotations

from random import Random

from dovetail.search.algorithms import Algorithm, Search, algorithms, blind
from dovetail.search.algorithms._optuna import logarithm, sampled
from dovetail.search.space import Space


def tpe(space: Space, rng: Random) -> Search:
    """Points that good ones make likelier than bad ones do (Bergstra et al., NeurIPS 2011)."""
    return sampled(
        space,
        rng,
        lambda samplers, seed: samplers.TPESampler(seed=seed, multivariate=True),
        lambda scored: (logarithm(scored.loss, scored),),
        num_bisections=1,
    )


algorithms.register("tpe")(Algorithm(search=blind(tpe), summary="Optuna's Parzen estimator", extra="search"))
