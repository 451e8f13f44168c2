"""Optuna's samplers behind our generators."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from random import Random
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored, Search
from dovetail.search.space import Space

WORST_LOG = 700.0  # samplers take no infinities; far above any logarithm of a loss


def sampled(
    space: Space,
    rng: Random,
    sampler: Callable[[Any, int], Any],
    aims: Callable[[Scored], tuple[float, ...]],
    num_bisections: int,
) -> Search:
    """Asks what `sampler`, made from Optuna's samplers and a seed, suggests, one point at a time."""
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError:
        raise InvalidInput(
            "this search needs Optuna; install it with: pip install 'dovetail-codesign[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seeded_sampler = sampler(optuna.samplers, rng.getrandbits(32))
    study = optuna.create_study(directions=["minimize"] * num_bisections, sampler=seeded_sampler)
    while True:
        trial = study.ask()
        point = tuple(trial.suggest_int(knob.name, 0, len(knob.values) - 1) for knob in space.knobs)
        [scored] = yield [point]
        study.tell(trial, list(aims(scored)))


def logarithm(amount: float, scored: Scored) -> float:
    """Of something to keep small; of a point that breaks a limit, far above any other and more by how far."""
    return math.log(amount) if math.isfinite(scored.loss) else WORST_LOG * (1 + scored.excess_frac)
