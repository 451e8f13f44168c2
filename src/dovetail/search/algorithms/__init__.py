"""Ways to search a space, one file each: a generator that yields points and is sent what they came to.

An algorithm knows nothing of chips, budgets, stores or clocks: it asks, gets scores, asks again. One that has nothing
left to ask returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from random import Random

from dovetail.registry import Registry, holding
from dovetail.search.space import Point, Space
from dovetail.workload.graph import FloatArray

NOTHING = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What a point came to. `loss` is least for the best; where a point breaks a limit, it is infinite.

    `excess_frac` is how far beyond its worst limit it is, 0 where it keeps all. `also` are further figures to keep
    small, for searches of several aims. `bottleneck` names the knob of which one more would have let critical work
    start earlier, if any. `plan` is the plan that it came to this by, as JSON, where plans are searched too.
    """

    point: Point
    loss: float
    excess_frac: float = 0.0
    also: tuple[float, ...] = ()
    bottleneck: str = NOTHING
    plan: str = NOTHING


Search = Generator[list[Point], list[Scored], None]
Bound = Callable[[list[Point]], FloatArray]  # what the loss of each point is at least; infinite beyond a limit

Order = Callable[[Space, Random, Bound], Iterator[Point]]


def unforeseen(_space: Space, _rng: Random, _bound: Bound) -> Iterator[Point]:
    """The order of a search whose next point depends on scores: it is not known ahead."""
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """`search` starts one; `extra` is the optional install it needs, if any.

    One that `is_exact` and comes to its end has found the best point of the space. `order` has the points that it asks
    for whatever scores it gets, each once, where there is such an order; the scores may end it earlier.
    """

    search: Callable[[Space, Random, Bound], Search]
    summary: str
    extra: str = NOTHING
    is_exact: bool = False
    draws: bool = True  # whether another seed may lead to other points
    order: Order = unforeseen


def blind(search: Callable[[Space, Random], Search]) -> Callable[[Space, Random, Bound], Search]:
    """A search that makes no use of bounds."""
    return lambda space, rng, _: search(space, rng)


def foreseen(search: Callable[[Space, Random], Search]) -> Order:
    """The order of a search that makes no use of scores."""

    def order(space: Space, rng: Random, _: Bound) -> Iterator[Point]:
        for points in search(space, rng):
            yield from points

    return order


algorithms: Registry[Algorithm] = Registry("search algorithm", __name__, check=holding("search algorithm", Algorithm))
