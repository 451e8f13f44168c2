"""WHAM's local search: core sizes from large to small, and cores added where critical work waits for one.

Sizes are walked as `_dimensions` has it. For each, counts grow from one of everything by what `Scored.bottleneck` says,
a core of a kind at a time: the backward pass mirrors the forward one, so a core that ends a wait in one ends its mirror
in the other. Where limits leave no room, a kind gives way to the other while that pays, which WHAM does not try.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator
from random import Random

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.algorithms._dimensions import LEAST_GAIN_FRAC, Counted, places_of_counts, walked
from dovetail.search.space import Point, Space


def critical_path(space: Space, _: Random) -> Search:
    """Best sizes by a walk down, best counts by growth."""
    place_of = places_of_counts(space)
    return walked(space, lambda branch: _grown(space, branch.start, place_of))


def _grown(space: Space, start: Point, place_of: dict[str, int]) -> Counted:
    """The least loss with the sizes of `start`, their counts grown and traded."""
    best = yield start
    while math.isfinite(best.loss):
        before = best.loss
        full: set[str] = set()
        while wanted := next((n for n in (best.bottleneck, *place_of) if n in place_of and n not in full), ""):
            tried = yield from _tried(space, best, {place_of[wanted]: 1})
            if tried is best:
                full.add(wanted)
            best = tried
        for give, take in itertools.permutations(place_of.values(), 2):
            tried = yield from _tried(space, best, {give: -1, take: 1})
            best = tried if tried is not best else (yield from _tried(space, best, {give: -1, take: 2}))
        if best.loss == before:
            break
    return best.loss


def _tried(space: Space, best: Scored, steps: dict[int, int]) -> Generator[Point, Scored, Scored]:
    """`best` with some knobs turned, where that is possible and pays; else `best`."""
    point = tuple(index + steps.get(place, 0) for place, index in enumerate(best.point))
    if not all(0 <= index < len(knob.values) for index, knob in zip(point, space.knobs, strict=True)):
        return best
    scored = yield point
    return scored if scored.loss < best.loss * (1 - LEAST_GAIN_FRAC) else best


algorithms.register("critical-path")(
    Algorithm(search=blind(critical_path), summary="WHAM's: cores grow where critical work waits for one", draws=False)
)
