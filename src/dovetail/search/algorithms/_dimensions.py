"""WHAM's walk over core sizes, from large to small; how many cores of a size are best is left to who walks.

Knobs in COUNTS are how many; all others size what is counted. A level of the tree halves one size of every branch of
the level above; a branch that has not improved for some levels is cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from dovetail.search.algorithms import Scored, Search
from dovetail.search.space import Point, Space

COUNTS = ("num_tensor", "num_vector")
HYSTERESIS = 1  # levels without improvement until a branch is cut
LEAST_GAIN_FRAC = 0.002  # of the loss, which another core or size must bring

Counted = Generator[Point, Scored, float]  # asks for points of one size; the least loss among them in the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Sizes with one core of each kind, the least loss of the sizes above, and levels that brought nothing."""

    start: Point
    above_loss: float = math.inf
    num_idle: int = 0


def places_of_counts(space: Space) -> dict[str, int]:
    names = [knob.name for knob in space.knobs]
    return {name: names.index(name) for name in COUNTS if name in names}


def walked(space: Space, counted: Callable[[Branch], Counted]) -> Search:
    """Sizes level by level, all branches of a level side by side, `counted` deciding how many cores each has."""
    counts = set(places_of_counts(space).values())
    largest = tuple(0 if place in counts else len(knob.values) - 1 for place, knob in enumerate(space.knobs))
    level, seen = [Branch(start=largest)], {largest}
    while level:
        losses = yield from _side_by_side([counted(branch) for branch in level])
        level = list(_next_level(level, losses, counts, seen))


def _side_by_side(growths: list[Counted]) -> Generator[list[Point], list[Scored], list[float]]:
    """Asks for the next point of every growth at once; what each came to in the end."""
    losses = [math.inf] * len(growths)
    wanted: dict[int, Point] = {}
    for place, growth in enumerate(growths):
        _advance(growth, None, place, wanted, losses)
    while wanted:
        scored_points = yield list(wanted.values())
        for place, one in zip(list(wanted), scored_points, strict=True):
            _advance(growths[place], one, place, wanted, losses)
    return losses


def _advance(growth: Counted, scored: Scored | None, place: int, wanted: dict[int, Point], losses: list[float]) -> None:
    """One step of a growth: the next point that it wants, or its end."""
    try:
        wanted[place] = next(growth) if scored is None else growth.send(scored)
    except StopIteration as ended:
        losses[place] = ended.value
        wanted.pop(place, None)


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
