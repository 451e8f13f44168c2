"""Systems searched by asking and telling: algorithms that see losses alone, beside the bound of the same space.

A system is scored by itself, whatever else is scored with it: so its score is the same bits in any order, for any
algorithm and after any interruption, and one store serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Scored
from dovetail.search.ask_tell import run_search
from dovetail.search.codesign.joint import (
    CLOSE_FRAC,
    JointFound,
    SearchBackend,
    SearchCounts,
    Standing,
    bounded,
    refined_window,
)
from dovetail.search.codesign.question import places_of, systems_at
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import built_systems
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray, IntArray

NUM_AHEAD = 32  # systems scored at once where the next points are known


def black_box(
    scorer: Scorer, backend: SearchBackend, algorithm: Algorithm, rng: Random, *, num_most: int
) -> JointFound | None:
    """The best system that `algorithm` comes to with `num_most` points looked at, its uneven plans searched at the end.

    None where it meets no system that has a plan. The bound is that of all systems, as in `joint_search`, and no work
    of the algorithm's.
    """
    lower_bounds, census = bounded(scorer)
    telling, space = _Telling(scorer, backend, lower_bounds), scorer.question.space
    search = algorithm.search(space, rng, telling.bound)
    telling.ahead = islice(algorithm.order(space, copy(rng), telling.bound), num_most)

    def tell(points: list[Point]) -> None:
        telling.tell(points)
        backend.watch(telling.standing(num_most))

    run_search(search, telling.scored, tell, num_most=num_most)
    return telling.found(census)


def may_fit(scorer: Scorer) -> bool:
    """Whether bounds leave any system of the question that a plan may fit."""
    lower_bounds, _ = bounded(scorer)
    return bool(np.isfinite(lower_bounds).any())


class _Telling:
    """The scores that an algorithm has seen, beside the bounds of all points of the space."""

    def __init__(self, scorer: Scorer, backend: SearchBackend, lower_bounds: FloatArray) -> None:
        self._scorer, self._backend, self._lower_bounds = scorer, backend, lower_bounds
        self._shape = [len(knob.values) for knob in scorer.question.space.knobs]
        self._known = dict(backend.known)  # and what was scored ahead
        self._scores: dict[Point, SystemScore] = {}  # of systems that it has seen
        self._open = lower_bounds.copy()  # infinite once a system is scored
        self.scored: dict[Point, Scored] = {}
        self.ahead: Iterator[Point] = iter(())

    def bound(self, points: list[Point]) -> FloatArray:
        return np.asarray(self._lower_bounds[self._places(points)])

    def _places(self, points: list[Point]) -> IntArray:
        columns = np.array(points, dtype=np.int64).reshape(-1, len(self._shape))
        return np.asarray(np.ravel_multi_index(tuple(columns.T), self._shape))

    def tell(self, points: list[Point]) -> None:
        """Scores those that may have a plan; the others are known to have none."""
        if not points:
            return
        self._score(points)
        excess_frac, power_w = self._taken(points)
        for row, point in enumerate(points):
            score = self._known.get(point)
            if score is not None:
                self._scores[point] = score
            self.scored[point] = Scored(
                point=point,
                loss=math.inf if score is None else score.loss,
                excess_frac=float(excess_frac[row]),
                also=(float(power_w[row]),),
            )
        self._open[self._places(points)] = math.inf

    def _score(self, points: list[Point]) -> None:
        """By itself each, and ahead of those that are not known, where the next points are known."""
        while any(point not in self._known for point in self._fitting(points)):
            ahead_points = list(islice(self.ahead, NUM_AHEAD)) or points
            wanted = [point for point in self._fitting(ahead_points) if point not in self._known]
            for scores in self._backend.score([([point], math.inf) for point in wanted]):
                self._backend.keep(scores)
                self._known |= {score.point: score for score in scores}

    def _fitting(self, points: list[Point]) -> list[Point]:
        """Those that are systems within the limits which some plan may fit."""
        return [
            point
            for point, lower_bound in zip(points, self.bound(points).tolist(), strict=True)
            if lower_bound < math.inf
        ]

    def _taken(self, points: list[Point]) -> tuple[FloatArray, FloatArray]:
        """How far each is beyond the limit it breaks most, and what a device takes with everything busy."""
        question = self._scorer.question
        systems = systems_at(question.space, places_of(points))
        built = built_systems(question.base, systems)
        return question.budget.excess_frac(built, systems["num_devices"]), built.power_w

    def standing(self, num_most: int) -> Standing:
        loss = min((score.loss for score in self._scores.values()), default=math.inf)
        num_done = len(self.scored)
        bound = min(loss, float(self._open.min()))
        return Standing(phase="points", num_done=num_done, num_open=num_most - num_done, loss=loss, bound=bound)

    def found(self, census: SearchCounts) -> JointFound | None:
        """The best that it has seen, with its uneven plans, beside what no system is below."""
        if not any(math.isfinite(score.loss) for score in self._scores.values()):
            return None
        scored = sorted(self._scores.values(), key=lambda score: (score.loss, score.point))
        [best] = refined_window(self._backend, scored[:1], scored[0].loss)
        lower_bounds_left = [best.low, *(score.low for score in scored[1:])]
        least = best.loss * (1 - CLOSE_FRAC)
        num_left = int((self._open < least).sum())
        return JointFound(
            best=best,
            bound=min(best.loss, float(self._open.min()), *lower_bounds_left),
            scored=tuple(scored),
            census=replace(
                census,
                num_pruned=int(np.isfinite(self._open).sum()) - num_left,
                num_scored=len(scored),
                num_unvisited=num_left,
                num_refined=1,
                num_open=num_left + sum(lower_bound < least for lower_bound in lower_bounds_left),
            ),
        )
