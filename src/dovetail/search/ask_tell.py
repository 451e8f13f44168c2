"""A search run to its end: the points it asks for are scored and sent back, until it has enough or goes in circles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dovetail.search.algorithms import Scored, Search
from dovetail.search.space import Point

NUM_IDLE = 2000  # points in a row without a new point among them: a search that goes round in circles ends


def run_search(
    search: Search, known: Mapping[Point, Scored], tell: Callable[[list[Point]], None], *, num_most: int
) -> None:
    """Runs `search` over at most `num_most` points; `tell` scores those that are new and puts them into `known`."""
    num_idle, points = 0, next(search, [])
    while points:
        fresh = new_among(points, known)[: num_most - len(known)]
        tell(fresh)
        num_idle = 0 if fresh else num_idle + len(points)
        if len(known) >= num_most or new_among(points, known) or num_idle >= NUM_IDLE:
            return
        try:
            points = search.send([known[point] for point in points])
        except StopIteration:
            return


def new_among(points: list[Point], known: Mapping[Point, Scored]) -> list[Point]:
    """Those without a score, each once."""
    return [point for point in dict.fromkeys(points) if point not in known]
