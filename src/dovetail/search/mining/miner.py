"""A search among designs, run: an algorithm asks, designs are scored, and what is known is not scored again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Scored, Search
from dovetail.search.ask_tell import run_search
from dovetail.search.mining.bounds import JobBounds
from dovetail.search.mining.chunks import Chunks, Score, scoring
from dovetail.search.mining.score import Question, scored
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a search is: `num_open` designs may still be better than the best, none is below `bound`."""

    num_evaluated: int
    loss: float
    bound: float
    num_open: int


Keep = Callable[[list[Scored]], None]
MiningProgress = Callable[[Standing], None]


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
    num_evaluated: int  # different designs requested, those beyond a limit too
    num_points: int  # of the space
    num_over_limit: int
    num_open: int  # neither scheduled nor shown to be no better
    bound: float
    open_bound: float  # what no design is below that was not scheduled; infinite where all were

    @property
    def best(self) -> Scored:
        return self.found[0]

    @property
    def is_proven(self) -> bool:
        """Whether no design of the space is better than the best found."""
        return self.num_open == 0

    @property
    def num_proven(self) -> int:
        """How many of the first designs are known to be the best of the space, in their order."""
        return sum(one.loss <= self.open_bound for one in self.found)

    @property
    def num_scheduled(self) -> int:
        return len(self.found)

    @property
    def num_pruned(self) -> int:
        """Designs within the limits of which a bound alone says that they are no better."""
        return self.num_points - self.num_over_limit - self.num_scheduled - self.num_open

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
    watch: MiningProgress,
    chunks: Chunks | None = None,
    bounds: JobBounds | None = None,
) -> Mined | None:
    """The best designs that `algorithm` finds with at most `num_most` designs scored; none where all are beyond limits.

    Designs in `known` are not scored again but count, so that a search that was broken off ends as it would have.
    `chunks` scores many designs at once, as other processes do; without it that is done here. `bounds` are those of
    another question over the same jobs, base and space, whose tables need not be made again. The answer is the same.
    """
    telling = _Telling(question, known, keep, JobBounds(question) if bounds is None else bounds.for_question(question))
    search = algorithm.search(question.space, rng, telling.bound)
    order = algorithm.order(question.space, copy(rng), telling.bound)
    ahead = (point for point in islice(order, num_most) if point not in known)
    with scoring(chunks or (lambda every: (scored(question, chunk) for chunk in every)), ahead) as score:
        _run(search, telling, score, num_most, watch)
    return telling.mined()


def _run(search: Search, telling: _Telling, score: Score, num_most: int, watch: MiningProgress) -> None:
    def tell(points: list[Point]) -> None:
        if points:
            telling.tell(points, score)
            watch(telling.standing())

    run_search(search, telling.scored, tell, num_most=num_most)


class _Telling:
    """The scores that a search has seen, beside the bounds of all designs of the space."""

    def __init__(
        self, question: Question, known: Mapping[Point, Scored], keep: Keep, bounds: Callable[[list[Point]], FloatArray]
    ) -> None:
        self._known, self._keep = known, keep
        points = list(question.space.points())
        self._place = {point: place for place, point in enumerate(points)}
        self._lower_bounds = bounds(points)
        self._open = self._lower_bounds.copy()  # infinite once a design is scored
        self.scored: dict[Point, Scored] = {}
        self.improvements: list[Improvement] = []

    def bound(self, points: list[Point]) -> FloatArray:
        places = np.fromiter(map(self._place.__getitem__, points), np.int64, len(points))
        return np.asarray(self._lower_bounds[places])

    @property
    def loss(self) -> float:
        return self.improvements[-1].loss if self.improvements else math.inf

    def tell(self, points: list[Point], score: Score) -> None:
        """Scores what is not known, keeps it, and notes every improvement in the order requested."""
        unknown = [point for point in points if point not in self._known]
        new = score(unknown) if unknown else []
        if new:
            self._keep(new)
        by_point = {one.point: one for one in new}
        for point in points:
            one = self.scored[point] = by_point.get(point) or self._known[point]
            self._open[self._place[point]] = math.inf
            if one.loss < self.loss:
                self.improvements.append(Improvement(num_evaluated=len(self.scored), loss=one.loss, point=point))

    def standing(self) -> Standing:
        return Standing(
            num_evaluated=len(self.scored),
            loss=self.loss,
            bound=min(self.loss, float(self._open.min())),
            num_open=int((self._open < self.loss).sum()),
        )

    def mined(self) -> Mined | None:
        """What the search came to, if anything."""
        inside = [one for one in self.scored.values() if math.isfinite(one.loss)]
        if not inside:
            return None
        now = self.standing()
        return Mined(
            found=tuple(sorted(inside, key=lambda one: (one.loss, one.point))),
            improvements=tuple(self.improvements),
            num_evaluated=now.num_evaluated,
            num_points=len(self._lower_bounds),
            num_over_limit=int(np.isinf(self._lower_bounds).sum()),
            num_open=now.num_open,
            bound=now.bound,
            open_bound=float(self._open.min()),
        )
