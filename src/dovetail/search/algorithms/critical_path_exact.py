"""WHAM's exact mode: the walk over core sizes, with the best counts of each size proven and not grown.

WHAM states the counts of a size as an integer program. Here all counts of a size are bounded, and scheduled best bound
first until no other can be better, or none can improve on the sizes above. What the walk cuts off is not looked at, so
the answer is the best of the sizes that it sees; `exact` is the best of all.
"""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Bound, Search, algorithms
from dovetail.search.algorithms._dimensions import LEAST_GAIN_FRAC, Branch, Counted, places_of_counts, walked
from dovetail.search.space import Space


def critical_path_exact(space: Space, _: Random, bound: Bound) -> Search:
    """Best sizes by a walk down, the counts of each by a proof."""
    return walked(space, lambda branch: _proven(space, branch, bound))


def _proven(space: Space, branch: Branch, bound: Bound) -> Counted:
    """The least loss with the sizes of `branch`, or that above it where no counts can improve on that."""
    counts = places_of_counts(space).values()
    choices = [
        range(len(knob.values)) if place in counts else (branch.start[place],) for place, knob in enumerate(space.knobs)
    ]
    points = list(itertools.product(*choices))
    lower_bounds = bound(points)
    best, enough = math.inf, branch.above_loss * (1 - LEAST_GAIN_FRAC)
    if not np.isfinite(lower_bounds).any():
        return best
    for place in np.argsort(lower_bounds, kind="stable").tolist():
        if lower_bounds[place] >= min(best, enough):
            break
        scored = yield points[place]
        best = min(best, scored.loss)
    return min(best, branch.above_loss)


algorithms.register("critical-path-exact")(
    Algorithm(
        search=critical_path_exact, summary="WHAM's exact mode: its walk over sizes, counts by a proof", draws=False
    )
)
