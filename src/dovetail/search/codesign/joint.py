"""The joint search: all systems bounded, the most promising scored, uneven plans refined, until nothing is left below.

Systems are taken in the order of their bounds, in windows of a fixed size whatever runs them, and a window is scored
against the best of those before it: so the answer, and every row on the way to it, is the same on one process or many,
and after any number of interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.refining import RefinedSystem, refined_system
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import KNOBS
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray, IntArray

CHUNK, WINDOW = 32, 8  # systems scored in one task, and tasks between two looks at the best
REFINED_AT_ONCE = 4  # systems whose uneven plans are searched between two looks
LOWS_AT_ONCE = 500_000  # points whose columns take some hundred MB
CLOSE_FRAC = 1e-9  # style: a tolerance, of a loss; sums in another order differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a search is: of how many systems that may be better how many are done, the best so far, and the bound."""

    phase: str
    num_done: int
    num_open: int
    loss: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What became of all systems of a space; they add up."""

    num_systems: int = 0
    num_beyond: int = 0  # over a limit
    num_unfit: int = 0  # no plan of some case can fit
    num_bounded_away: int = 0
    num_scored: int = 0
    num_refined: int = 0  # of those scored: uneven plans searched
    num_open: int = 0  # of those scored: may still be better than the best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointFound:
    """The best system with its plans, what no system is below, and the others that were scored, the best first."""

    best: RefinedSystem
    bound: float
    scored: tuple[SystemScore, ...]
    census: Census

    @property
    def gap_frac(self) -> float:
        gap_frac = 1.0 - self.bound / self.best.loss
        return gap_frac if gap_frac > CLOSE_FRAC else 0.0


def _nobody(_: Standing) -> None:
    """Whom a search tells by default."""


Score = Callable[[Sequence[tuple[Sequence[Point], float]]], Iterator[list[SystemScore]]]
Refine = Callable[[Sequence[tuple[SystemScore, float]]], Iterator[RefinedSystem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """Who does the work, remembers it and is told: tasks in order, answers in the same order."""

    score: Score
    refine: Refine
    known: Mapping[Point, SystemScore] = field(default_factory=dict)
    known_refined: Mapping[Point, RefinedSystem] = field(default_factory=dict)
    keep: Callable[[Iterable[SystemScore]], None] = lambda _: None
    keep_refined: Callable[[Iterable[RefinedSystem]], None] = lambda _: None
    watch: Callable[[Standing], None] = _nobody


def own_hands(scorer: Scorer) -> Hands:
    """This process, which remembers nothing."""
    return Hands(
        score=lambda tasks: (scorer.score(points, worst) for points, worst in tasks),
        refine=lambda tasks: (refined_system(scorer, score, worst) for score, worst in tasks),
    )


def joint_search(scorer: Scorer, hands: Hands, *, is_exhaustive: bool = False) -> JointFound | None:
    """The best system of the scorer's question; none where no system within the limits has a plan that fits.

    With `is_exhaustive` every system within the limits is scored, to check what bounds leave out.
    """
    lows, census = _bounded(scorer)
    order = np.argsort(lows, kind="stable")[: int(np.isfinite(lows).sum())]
    scored = _scored(scorer.question, hands, lows, order, is_exhaustive=is_exhaustive)
    if not any(math.isfinite(score.low) for score in scored):
        return None
    first = min(scored, key=lambda score: (score.loss, score.point))
    best, refined = _refined(hands, scored, first)
    if best is None:
        return None
    lows_left = [refined[score.point].low if score.point in refined else score.low for score in scored]
    num_open = sum(low < best.loss * (1 - CLOSE_FRAC) for low in lows_left)
    ahead = float(lows[order[len(scored)]]) if len(scored) < len(order) else math.inf
    bound = min([best.loss, ahead, *lows_left])
    return JointFound(
        best=best,
        bound=bound,
        scored=tuple(sorted(scored, key=lambda score: (score.loss, score.point))),
        census=Census(
            num_systems=census.num_systems,
            num_beyond=census.num_beyond,
            num_unfit=census.num_unfit,
            num_bounded_away=len(order) - len(scored),
            num_scored=len(scored),
            num_refined=len(refined),
            num_open=num_open,
        ),
    )


def _bounded(scorer: Scorer) -> tuple[FloatArray, Census]:
    """A low for every point of the space, in its order; infinite for those that are no system, too large or unfit."""
    question = scorer.question
    num_points, lows, counts = question.space.num_points, [], np.zeros(3, dtype=np.int64)
    for start in range(0, num_points, LOWS_AT_ONCE):
        flat = np.arange(start, min(num_points, start + LOWS_AT_ONCE))
        found, own = scorer.lows(places_at(question, flat))
        lows.append(found)
        counts += own
    num_systems, num_beyond, num_unfit = counts.tolist()
    return np.concatenate(lows), Census(num_systems=num_systems, num_beyond=num_beyond, num_unfit=num_unfit)


def places_at(question: JointQuestion, flat: IntArray) -> dict[str, IntArray]:
    """Points by number, in the order of the space, as which value of each knob they have."""
    shape = [len(knob.values) for knob in question.space.knobs]
    return dict(zip(KNOBS, np.unravel_index(flat, shape), strict=True))


def _scored(
    question: JointQuestion, hands: Hands, lows: FloatArray, order: IntArray, *, is_exhaustive: bool
) -> list[SystemScore]:
    """Systems in the order of their lows, until the next is no better than the best scored."""
    found: list[SystemScore] = []
    best = math.inf
    while len(found) < len(order):
        ahead = order[len(found) : len(found) + CHUNK * WINDOW]
        ahead = ahead if is_exhaustive else ahead[lows[ahead] < best]
        if not len(ahead):
            break
        columns = np.stack(list(places_at(question, ahead).values()), axis=1)
        points = [tuple(row) for row in columns.tolist()]
        here = _scored_window(hands, points, math.inf if is_exhaustive else best)
        found += here
        best = min([best, *(score.loss for score in here)])
        left = 0 if is_exhaustive else int((lows[order[len(found) :]] < best).sum())
        bound = float(lows[order[len(found)]]) if len(found) < len(order) else best
        hands.watch(Standing(phase="systems", num_done=len(found), num_open=left, loss=best, bound=min(best, bound)))
    return found


def _scored_window(hands: Hands, points: Sequence[Point], worst: float) -> list[SystemScore]:
    new = [point for point in points if point not in hands.known]
    tasks = [(new[start : start + CHUNK], worst) for start in range(0, len(new), CHUNK)]
    found = {point: hands.known[point] for point in points if point in hands.known}
    for scores in hands.score(tasks):
        hands.keep(scores)
        found |= {score.point: score for score in scores}
    return [found[point] for point in points]


def _refined(
    hands: Hands, scored: list[SystemScore], first: SystemScore
) -> tuple[RefinedSystem | None, dict[Point, RefinedSystem]]:
    """Systems whose low is below the best, in the order of lows; the best of all, and what was refined.

    The one that is best with even plans is always among them, so that the best has its plans spelt out.
    """
    queue = [first, *(score for score in sorted(scored, key=lambda s: (s.low, s.point)) if score is not first)]
    best: RefinedSystem | None = None
    refined: dict[Point, RefinedSystem] = {}
    loss = first.loss
    while queue:
        some = [queue.pop(0)] if best is None else []
        while queue and len(some) < REFINED_AT_ONCE and best is not None and queue[0].low < loss:
            some.append(queue.pop(0))
        if not some:
            break
        for system in _refined_window(hands, some, loss):
            refined[system.point] = system
            if best is None or (system.loss, system.point) < (best.loss, best.point):
                best = system
        loss = min(loss, best.loss) if best is not None else loss
        num_left = sum(score.low < loss for score in queue)
        bound = min([loss, *(score.low for score in queue[:1])])
        hands.watch(Standing(phase="uneven plans", num_done=len(refined), num_open=num_left, loss=loss, bound=bound))
    return best if best is not None and math.isfinite(best.loss) else None, refined


def _refined_window(hands: Hands, scores: Sequence[SystemScore], worst: float) -> list[RefinedSystem]:
    new = [(score, worst) for score in scores if score.point not in hands.known_refined]
    found = {score.point: hands.known_refined[score.point] for score in scores if score.point in hands.known_refined}
    for system in hands.refine(new):
        hands.keep_refined([system])
        found[system.point] = system
    return [found[score.point] for score in scores]
