"""How many designs a search looks at until it is near the best: WHAM's own, the exact one, and one like Spotlight's.

Counted in designs and not in seconds, so that the answer repeats. That leaves out what a search thinks, half of
a Bayesian one's CPU seconds (`benchmarks/convergence.py`), so the ratio in time is higher.
Every design's step is known, so that searches look up what they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from dovetail.papers.wham.searches import JobSearches
from dovetail.search.algorithms import Scored, Search, algorithms
from dovetail.search.ask_tell import NUM_IDLE, new_among
from dovetail.search.space import Point

WITHIN_FRAC = 0.01  # of the best
BUDGET = 500  # designs; a search drawn at random that needs more counts as if it had reached the best then
NUM_SEEDS = 3  # of what draws at random


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """Designs looked at until one is within a hundredth of the best; of the Bayesian search, a mean over seeds.

    A search that ends before counts as what it looked at.
    """

    critical_path: int
    exact: int
    bayes: float

    @property
    def over_critical_path(self) -> float:
        return self.bayes / self.critical_path

    @property
    def over_exact(self) -> float:
        return self.bayes / self.exact


def convergence(searches: JobSearches) -> Convergence:
    question = searches.question()
    known, bounds = searches.known(question), searches.bounds.for_question(question)
    target = min(one.loss for one in known.values()) * (1 + WITHIN_FRAC)

    def num_until(name: str, seed: int, num_most: int) -> int:
        return designs_until(algorithms[name].search(question.space, Random(seed), bounds), known, target, num_most)

    seeds = [num_until("bayes", seed, BUDGET) for seed in range(NUM_SEEDS)]
    return Convergence(
        critical_path=num_until("critical-path", 0, len(known)),
        exact=num_until("exact", 0, len(known)),
        bayes=float(np.mean(seeds)),
    )


def designs_until(search: Search, known: Mapping[Point, Scored], target: float, num_most: int) -> int:
    """Different points that `search` asks for until a loss is at most `target`, or it has seen `num_most`, or ends."""
    seen: dict[Point, Scored] = {}
    num_idle, points = 0, next(search, [])
    while points and num_idle < NUM_IDLE:
        fresh = new_among(points, seen)
        for point in fresh:
            seen[point] = known[point]
            if known[point].loss <= target or len(seen) >= num_most:
                return len(seen)
        num_idle = 0 if fresh else num_idle + len(points)
        try:
            points = search.send([known[point] for point in points])
        except StopIteration:
            break
    return len(seen)
