"""What a search says of itself as it goes on: the best so far and what none can beat, by what was looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

MOST_POINTS = 400  # a line of more is no finer to see


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """After `num_done` evaluations: the best value, and the bound on all; infinite or 0 where there is none yet."""

    num_done: int
    best: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """Marks in order; `counted` are what `done` was done to, and `unit` is of best and bound, of which
    `is_more_better`. `words` says a best or a bound as the page does elsewhere.
    """

    counted: str
    done: str
    unit: str
    is_more_better: bool
    marks: tuple[Mark, ...]
    words: Callable[[float], str]


def honest(trail: Trail) -> Trail:
    """The same, but that no bound is better than a later one: a search in phases bounds first only what it looks at."""
    worst = max if trail.is_more_better else min
    marks: list[Mark] = []
    for mark in reversed(trail.marks):
        later = marks[-1].bound if marks else mark.bound
        is_known = math.isfinite(mark.bound) and mark.bound > 0
        marks.append(replace(mark, bound=worst(mark.bound, later) if is_known and later > 0 else mark.bound))
    return replace(trail, marks=tuple(reversed(marks)))


def thinned(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Those at which something changed, the first and the last, and of these so many as a line can show."""
    every = list(marks)
    kept = [
        mark
        for index, mark in enumerate(every)
        if index in (0, len(every) - 1)
        or (mark.best, mark.bound) != (every[index - 1].best, every[index - 1].bound)
        or (mark.best, mark.bound) != (every[index + 1].best, every[index + 1].bound)
    ]
    if len(kept) <= MOST_POINTS:
        return tuple(kept)
    places = sorted({round(place * (len(kept) - 1) / (MOST_POINTS - 1)) for place in range(MOST_POINTS)})
    return tuple(kept[place] for place in places)
