"""WHAM's local search: core sizes from large to small, and cores added where critical work waits for one.

Knobs in COUNTS grow; all others size what is counted. The dimension generator walks sizes from the largest downwards,
halving one at a time, a level of that tree after another; for each, counts grow from one of everything by what
`Scored.short_of` names, a core of a kind at a time: the backward pass mirrors the forward one, so a core that ends a
wait in one ends its mirror in the other. A branch that has not improved for some levels is cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random

from dovetail.search.algorithms import NOTHING, Algorithm, Scored, Search, algorithms, blind
from dovetail.search.space import Point, Space

COUNTS = ("num_tensor", "num_vector")
HYSTERESIS = 1  # levels without improvement until a branch is cut
LEAST_GAIN_FRAC = 0.002  # of the loss, which another core must bring


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Sizes whose counts grow: the best so far with them, what was tried last, and the kinds that can grow no more."""

    here: Point
    parent_loss: float  # the best of the sizes above
    num_idle: int  # levels above that brought nothing
    best: Point
    loss: float = math.inf
    full: frozenset[str] = frozenset()


def critical_path(space: Space, _: Random) -> Search:
    """Best sizes by a walk down, best counts by growth."""
    names = [knob.name for knob in space.knobs]
    place_of = {name: names.index(name) for name in COUNTS if name in names}
    largest = tuple(0 if n in place_of else len(k.values) - 1 for n, k in zip(names, space.knobs, strict=True))
    level = [Branch(here=largest, best=largest, parent_loss=math.inf, num_idle=0)]
    seen = {largest}
    while level:
        done: list[Branch] = []
        growing = level
        while growing:
            told = yield [branch.here for branch in growing]
            tried = [_grown(space, place_of, branch, one) for branch, one in zip(growing, told, strict=True)]
            done += [branch for branch, ends in tried if ends]
            growing = [branch for branch, ends in tried if not ends]
        level = _next_level(done, set(place_of.values()), seen)


def _grown(space: Space, place_of: dict[str, int], branch: Branch, told: Scored) -> tuple[Branch, bool]:
    """The branch with what its last trial came to and the next to try; and whether it ends."""
    if told.loss < branch.loss * (1 - LEAST_GAIN_FRAC):
        branch = replace(branch, best=told.point, loss=told.loss)
        wanted = told.short_of
    elif math.isinf(branch.loss):
        return branch, True  # not even one core of each kind keeps the limits
    else:
        grown = next(name for name, place in place_of.items() if branch.here[place] != branch.best[place])
        branch = replace(branch, full=branch.full | {grown})
        wanted = next((name for name in place_of if name not in branch.full), NOTHING)
    while wanted != NOTHING:
        place = place_of[wanted]
        if wanted not in branch.full and branch.best[place] + 1 < len(space.knobs[place].values):
            more = (*branch.best[:place], branch.best[place] + 1, *branch.best[place + 1 :])
            return replace(branch, here=more), False
        branch = replace(branch, full=branch.full | {wanted})
        wanted = next((name for name in place_of if name not in branch.full), NOTHING)
    return branch, True


def _next_level(done: list[Branch], counts: set[int], seen: set[Point]) -> list[Branch]:
    """One size of each branch a step down, where the branch has not been idle too long."""
    found = []
    for branch in done:
        has_gained = branch.loss < branch.parent_loss * (1 - LEAST_GAIN_FRAC) or math.isinf(branch.loss)
        num_idle = 0 if has_gained else branch.num_idle + 1
        if num_idle > HYSTERESIS:
            continue
        for place, size in enumerate(branch.best):
            smaller = tuple(0 if p in counts else value - (p == place) for p, value in enumerate(branch.best))
            if place not in counts and size > 0 and smaller not in seen:
                seen.add(smaller)
                loss = min(branch.loss, branch.parent_loss)
                found.append(Branch(here=smaller, best=smaller, parent_loss=loss, num_idle=num_idle))
    return found


algorithms.register("critical-path")(
    Algorithm(search=blind(critical_path), summary="WHAM's: cores grow where critical work waits for one")
)
