"""Points scored in chunks of one size, for any number of workers, and ahead of the search where its order is known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice

from dovetail.search.algorithms import Scored
from dovetail.search.space import Point

NUM_IN_CHUNK = 32  # designs in one call of the scheduler cost less than half of what they do by eights (measured)
NUM_FIRST = 8  # of the first call: most searches find the best design among them, or one close to it

Chunks = Callable[[Iterable[list[Point]]], Generator[list[Scored], None, None]]  # what chunks come to, in their order
Score = Callable[[list[Point]], list[Scored]]


@contextmanager
def scoring(chunks: Chunks, ahead: Iterator[Point]) -> Iterator[Score]:
    """Scores requested points.

    Those of `ahead` are expected in that order, and may be scored before: by other workers while a search thinks, or in
    one chunk with others. Where a search ends before them, they are dropped.
    """
    with closing(chunks(_in_chunks(ahead))) as coming:
        found: dict[Point, Scored] = {}

        def score(points: list[Point]) -> list[Scored]:
            while not all(point in found for point in points):
                chunk = next(coming, None)
                if chunk is None:
                    break
                found.update((one.point, one) for one in chunk)
            missing = [point for point in points if point not in found]
            if missing:  # it was not foreseen
                for chunk in chunks(_in_chunks(iter(missing))):
                    found.update((one.point, one) for one in chunk)
            return [found.pop(point) for point in points]

        yield score


def _in_chunks(points: Iterator[Point]) -> Iterator[list[Point]]:
    size = NUM_FIRST
    while chunk := list(islice(points, size)):
        yield chunk
        size = NUM_IN_CHUNK
