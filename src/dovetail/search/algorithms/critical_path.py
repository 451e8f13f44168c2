"""WHAM's local search: core sizes from large to small, and cores added where critical work waits for one.

Knobs in COUNTS grow; all others size what is counted. The dimension generator walks sizes from the largest downwards,
halving one at a time, a level of that tree after another; for each, counts grow from one of everything by what
`Scored.short_of` names, a core of a kind at a time: the backward pass mirrors the forward one, so a core that ends a
wait in one ends its mirror in the other. Where limits leave no room, a kind gives way to the other while that pays,
which WHAM does not try. A branch that has not improved for some levels is cut.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from random import Random

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.space import Point, Space

COUNTS = ("num_tensor", "num_vector")
HYSTERESIS = 1  # levels without improvement until a branch is cut
LEAST_GAIN_FRAC = 0.002  # of the loss, which another core must bring

Growth = Generator[Point, Scored, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Sizes with one core of each kind, the least loss of the sizes above, and levels that brought nothing."""

    start: Point
    above_loss: float = math.inf
    num_idle: int = 0


def critical_path(space: Space, _: Random) -> Search:
    """Best sizes by a walk down, best counts by growth; all branches of a level grow side by side."""
    names = [knob.name for knob in space.knobs]
    place_of = {name: names.index(name) for name in COUNTS if name in names}
    largest = tuple(0 if n in place_of else len(k.values) - 1 for n, k in zip(names, space.knobs, strict=True))
    level, seen = [Branch(start=largest)], {largest}
    while level:
        losses = yield from _side_by_side([_grown(space, branch.start, place_of) for branch in level])
        level = list(_next_level(level, losses, set(place_of.values()), seen))


def _side_by_side(growths: list[Growth]) -> Generator[list[Point], list[Scored], list[float]]:
    """Asks for the next point of every growth at once; what each came to in the end."""
    losses = [math.inf] * len(growths)
    wanted = {place: next(growth) for place, growth in enumerate(growths)}
    while wanted:
        told = yield list(wanted.values())
        for place, one in zip(list(wanted), told, strict=True):
            try:
                wanted[place] = growths[place].send(one)
            except StopIteration as ended:
                losses[place] = ended.value
                del wanted[place]
    return losses


def _grown(space: Space, start: Point, place_of: dict[str, int]) -> Growth:
    """The least loss with the sizes of `start`, their counts grown and traded."""
    best = yield start
    while math.isfinite(best.loss):
        before = best.loss
        full: set[str] = set()
        while wanted := next((n for n in (best.short_of, *place_of) if n in place_of and n not in full), ""):
            told = yield from _tried(space, best, {place_of[wanted]: 1})
            if told is best:
                full.add(wanted)
            best = told
        for give, take in itertools.permutations(place_of.values(), 2):
            told = yield from _tried(space, best, {give: -1, take: 1})
            best = told if told is not best else (yield from _tried(space, best, {give: -1, take: 2}))
        if best.loss == before:
            break
    return best.loss


def _tried(space: Space, best: Scored, steps: dict[int, int]) -> Generator[Point, Scored, Scored]:
    """`best` with some knobs turned, where that is possible and pays; else `best`."""
    point = tuple(index + steps.get(place, 0) for place, index in enumerate(best.point))
    if not all(0 <= index < len(knob.values) for index, knob in zip(point, space.knobs, strict=True)):
        return best
    told = yield point
    return told if told.loss < best.loss * (1 - LEAST_GAIN_FRAC) else best


def _next_level(level: list[Branch], losses: list[float], counts: set[int], seen: set[Point]) -> Iterator[Branch]:
    """One size of each branch a step down, where the branch has not been idle too long."""
    for branch, loss in zip(level, losses, strict=True):
        has_gained = loss < branch.above_loss * (1 - LEAST_GAIN_FRAC) or math.isinf(loss)
        num_idle = 0 if has_gained else branch.num_idle + 1
        for place, size in enumerate(branch.start):
            smaller = (*branch.start[:place], size - 1, *branch.start[place + 1 :])
            if num_idle <= HYSTERESIS and place not in counts and size > 0 and smaller not in seen:
                seen.add(smaller)
                yield Branch(start=smaller, above_loss=min(loss, branch.above_loss), num_idle=num_idle)


algorithms.register("critical-path")(
    Algorithm(search=blind(critical_path), summary="WHAM's: cores grow where critical work waits for one")
)
