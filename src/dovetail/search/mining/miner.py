"""A search among designs, run: an algorithm asks, designs are scored, and what is known is not scored again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from dovetail.search.algorithms import Algorithm, Scored
from dovetail.search.mining.bounds import JobBounds
from dovetail.search.mining.score import Question, scored
from dovetail.search.space import Point

Keep = Callable[[list[Scored]], None]
Watch = Callable[[int, float], None]  # evaluations so far, and the least loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """From which evaluation on the best design had which loss."""

    num_evaluated: int
    loss: float
    point: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """What a search found: designs by loss, how it got there, and what no design of the space is below."""

    found: tuple[Scored, ...]  # those within the limits, the best first, each once
    improvements: tuple[Improvement, ...]
    num_evaluated: int  # different designs scored, those beyond a limit too
    num_beyond: int
    bound: float
    is_proven: bool  # the algorithm is exact, and came to its end

    @property
    def best(self) -> Scored:
        return self.found[0]

    @property
    def gap_frac(self) -> float:
        """How much better than the best found another design may be."""
        return 0.0 if self.is_proven else max(0.0, 1.0 - self.bound / self.best.loss)


def mined(
    question: Question,
    algorithm: Algorithm,
    rng: Random,
    *,
    num_most: int,
    known: Mapping[Point, Scored],
    keep: Keep,
    watch: Watch,
) -> Mined | None:
    """The best designs that `algorithm` finds with at most `num_most` designs scored; none where all are beyond limits.

    Designs in `known` are not scored again but count, so that a search that was broken off ends as it would have.
    """
    bounds = JobBounds(question)
    told: dict[Point, Scored] = {}
    improvements: list[Improvement] = []
    is_ended = False
    search = algorithm.search(question.space, rng, bounds)
    asked = next(search)
    while True:
        fresh = [point for point in dict.fromkeys(asked) if point not in told]
        fresh = fresh[: num_most - len(told)]
        _tell(question, fresh, known, keep, told, improvements)
        watch(len(told), improvements[-1].loss if improvements else math.inf)
        if len(told) >= num_most or any(point not in told for point in asked):
            break
        try:
            asked = search.send([told[point] for point in asked])
        except StopIteration:
            is_ended = True
            break
    inside = sorted((one for one in told.values() if math.isfinite(one.loss)), key=lambda one: (one.loss, one.point))
    if not inside:
        return None
    is_proven = algorithm.is_exact and is_ended
    return Mined(
        found=tuple(inside),
        improvements=tuple(improvements),
        num_evaluated=len(told),
        num_beyond=len(told) - len(inside),
        bound=inside[0].loss if is_proven else float(bounds(list(question.space.points())).min()),
        is_proven=is_proven,
    )


def _tell(
    question: Question,
    points: list[Point],
    known: Mapping[Point, Scored],
    keep: Keep,
    told: dict[Point, Scored],
    improvements: list[Improvement],
) -> None:
    """Scores what is not known, keeps it, and notes every improvement in the order asked."""
    new = scored(question, [point for point in points if point not in known])
    if new:
        keep(new)
    by_point = {one.point: one for one in new}
    for point in points:
        one = told[point] = by_point.get(point) or known[point]
        if one.loss < (improvements[-1].loss if improvements else math.inf):
            improvements.append(Improvement(num_evaluated=len(told), loss=one.loss, point=point))
