"""A search run to its end: what it asks for is scored and told to it, until it has seen enough or goes in circles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dovetail.search.algorithms import Scored, Search
from dovetail.search.space import Point

NUM_IDLE = 2000  # asked in a row without a new point among them: a search that goes round in circles ends


def run_search(
    search: Search, told: Mapping[Point, Scored], tell: Callable[[list[Point]], None], *, num_most: int
) -> None:
    """Has `search` told of at most `num_most` points; `tell` is given those that are new, and puts them into `told`."""
    num_idle, asked = 0, next(search, [])
    while asked:
        fresh = new_among(asked, told)[: num_most - len(told)]
        tell(fresh)
        num_idle = 0 if fresh else num_idle + len(asked)
        if len(told) >= num_most or new_among(asked, told) or num_idle >= NUM_IDLE:
            return
        try:
            asked = search.send([told[point] for point in asked])
        except StopIteration:
            return


def new_among(points: list[Point], told: Mapping[Point, Scored]) -> list[Point]:
    """Those that nothing was told of, each once."""
    return [point for point in dict.fromkeys(points) if point not in told]
