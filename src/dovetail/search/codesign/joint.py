"""The joint search: all systems bounded, the most promising scored, uneven plans refined, until nothing is left below.

Systems are taken in the order of their bounds, in windows of a fixed size whatever runs them, and a window is scored
against the best of those before it: so the answer, and every row on the way to it, is the same on one process or many,
and after any number of interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.refining import RefinedSystem, refined_system
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.system_bounds import NUM_COUNTS
from dovetail.search.codesign.systems import KNOBS
from dovetail.search.metrics import metrics
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray, IntArray

CHUNK, WINDOW = 32, 8  # systems scored in one task, and tasks between two looks at the best
REFINED_AT_ONCE = 4  # systems whose uneven plans are searched between two looks
CAPACITIES = ("sram_mib", "stack_gib")  # knobs of which more never makes a step longer
LOWER_BOUND_BATCH = 500_000  # points whose columns take some hundred MB
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
class SearchCounts:
    """What became of all systems of a space; they add up."""

    num_systems: int = 0
    num_over_limit: int = 0  # over a limit
    num_unshardable: int = 0  # no plan cuts some case for so many devices
    num_out_of_memory: int = 0  # no plan of some case can fit
    num_pruned: int = 0
    num_scored: int = 0
    num_unvisited: int = 0  # neither of these: what a black box did not come to
    num_refined: int = 0  # of those scored: uneven plans searched
    num_open: int = 0  # of those scored or left: may still be better than the best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointFound:
    """The best system with its plans, what no system is below, and the others that were scored, the best first."""

    best: RefinedSystem
    bound: float
    scored: tuple[SystemScore, ...]
    census: SearchCounts

    @property
    def gap_frac(self) -> float:
        gap_frac = 1.0 - self.bound / self.best.loss
        return gap_frac if gap_frac > CLOSE_FRAC else 0.0


def _no_progress(_: Standing) -> None:
    """Whom a search tells by default."""


Score = Callable[[Sequence[tuple[Sequence[Point], float]]], Iterator[list[SystemScore]]]
Refine = Callable[[Sequence[tuple[SystemScore, float]]], Iterator[RefinedSystem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBackend:
    """Who does the work, keeps it and gets reports: tasks in order, answers in the same order."""

    score: Score
    refine: Refine
    known: Mapping[Point, SystemScore] = field(default_factory=dict)
    known_refined: Mapping[Point, RefinedSystem] = field(default_factory=dict)
    keep: Callable[[Iterable[SystemScore]], None] = lambda _: None
    keep_refined: Callable[[Iterable[RefinedSystem]], None] = lambda _: None
    watch: Callable[[Standing], None] = _no_progress


def local_backend(scorer: Scorer) -> SearchBackend:
    """This process, which remembers nothing."""
    return SearchBackend(
        score=lambda tasks: (scorer.score(points, worst) for points, worst in tasks),
        refine=lambda tasks: (refined_system(scorer, score, worst) for score, worst in tasks),
    )


def joint_search(scorer: Scorer, backend: SearchBackend, *, is_exhaustive: bool = False) -> JointFound | None:
    """The best system of the scorer's question; none where no system within the limits has a plan that fits.

    With `is_exhaustive` every system within the limits is scored, to check what bounds leave out.
    """
    lower_bounds, census = bounded(scorer)
    order = np.argsort(lower_bounds, kind="stable")[: int(np.isfinite(lower_bounds).sum())]
    refined: dict[Point, RefinedSystem] = {}
    scored = _scored(scorer.question, backend, lower_bounds, order, refined, is_exhaustive=is_exhaustive)
    if not any(math.isfinite(score.low) for score in scored):
        return None
    larger = _LargerMemories(scorer.question, is_used=not is_exhaustive)
    best = _refined(larger, backend, scored, refined)
    if best is None:
        return None
    lower_bounds_left = [refined[score.point].low if score.point in refined else score.low for score in scored]
    num_open = sum(lower_bound < best.loss * (1 - CLOSE_FRAC) for lower_bound in lower_bounds_left)
    ahead = float(lower_bounds[order[len(scored)]]) if len(scored) < len(order) else math.inf
    bound = min([best.loss, ahead, *lower_bounds_left])
    return JointFound(
        best=best,
        bound=bound,
        scored=tuple(sorted(scored, key=lambda score: (score.loss, score.point))),
        census=replace(
            census,
            num_pruned=len(order) - len(scored),
            num_scored=len(scored),
            num_refined=len(refined),
            num_open=num_open,
        ),
    )


def bounded(scorer: Scorer) -> tuple[FloatArray, SearchCounts]:
    """A low for every point of the space, in its order; infinite for those that are no system, too large or unfit."""
    question, num_points = scorer.question, scorer.question.space.num_points
    lower_bounds, counts = np.full(num_points, np.inf), np.zeros(NUM_COUNTS, dtype=np.int64)
    for flat in _systems(scorer):
        lower_bounds[flat], batch_counts = scorer.lower_bounds(places_at(question, flat), are_systems=True)
        counts += batch_counts
    return lower_bounds, counted(counts)


def _systems(scorer: Scorer) -> Iterator[IntArray]:
    """Numbers of the points that are systems, about LOWER_BOUND_BATCH together: what they share is worked out once."""
    question, num_points, found, num_found = scorer.question, scorer.question.space.num_points, [], 0
    for start in range(0, num_points, LOWER_BOUND_BATCH):
        flat = np.arange(start, min(num_points, start + LOWER_BOUND_BATCH))
        found.append(flat[scorer.systems_among(places_at(question, flat))])
        num_found += len(found[-1])
        if num_found >= LOWER_BOUND_BATCH:
            yield np.concatenate(found)
            found, num_found = [], 0
    if num_found:
        yield np.concatenate(found)


def counted(counts: IntArray) -> SearchCounts:
    """What bounds alone say of all systems, as `Scorer.lows` counts them."""
    num_systems, num_over_limit, num_unshardable, num_out_of_memory = counts.tolist()
    return SearchCounts(
        num_systems=num_systems,
        num_over_limit=num_over_limit,
        num_unshardable=num_unshardable,
        num_out_of_memory=num_out_of_memory,
    )


def places_at(question: JointQuestion, flat: IntArray) -> dict[str, IntArray]:
    """Points by number, in the order of the space, as which value of each knob they have."""
    shape = {name: len(knob.values) for name, knob in zip(KNOBS, question.space.knobs, strict=True)}
    turned = [name for name, num_values in shape.items() if num_values > 1]
    places = np.unravel_index(flat, [shape[name] for name in turned]) if turned else ()
    fixed = np.broadcast_to(np.int64(0), flat.shape)  # of knobs with one value
    return dict.fromkeys(KNOBS, fixed) | dict(zip(turned, places, strict=True))


def _scored(
    question: JointQuestion,
    backend: SearchBackend,
    lower_bounds: FloatArray,
    order: IntArray,
    refined: dict[Point, RefinedSystem],
    *,
    is_exhaustive: bool,
) -> list[SystemScore]:
    """Systems in the order of their lows, until the next is no better than the best.

    That is the best with uneven plans too: whichever leads after a window is refined, and written down in `refined`.
    """
    found: list[SystemScore] = []
    best = math.inf
    while len(found) < len(order):
        ahead = order[len(found) : len(found) + CHUNK * WINDOW]
        ahead = ahead if is_exhaustive else ahead[lower_bounds[ahead] < best]
        if not len(ahead):
            break
        columns = np.stack(list(places_at(question, ahead).values()), axis=1)
        points = [tuple(row) for row in columns.tolist()]
        found += _scored_window(backend, points, math.inf if is_exhaustive else best)
        leader = _leader(found)
        if not is_exhaustive and math.isfinite(leader.loss) and leader.point not in refined:
            [refined[leader.point]] = refined_window(backend, [leader], leader.loss)
        best = min([best, leader.loss, *(system.loss for system in refined.values())])
        left = 0 if is_exhaustive else int((lower_bounds[order[len(found) :]] < best).sum())
        bound = float(lower_bounds[order[len(found)]]) if len(found) < len(order) else best
        backend.watch(Standing(phase="systems", num_done=len(found), num_open=left, loss=best, bound=min(best, bound)))
    return found


def _leader(scored: Sequence[SystemScore]) -> SystemScore:
    """The best with even plans."""
    return min(scored, key=lambda score: (score.loss, score.point))


def _scored_window(backend: SearchBackend, points: Sequence[Point], worst: float) -> list[SystemScore]:
    """Of chunks that are not all known, those that are not; a chunk is scored whole, as sums round by what is in it."""
    chunks = [points[start : start + CHUNK] for start in range(0, len(points), CHUNK)]
    tasks = [(chunk, worst) for chunk in chunks if any(point not in backend.known for point in chunk)]
    found = {point: backend.known[point] for point in points if point in backend.known}
    for scores in backend.score(tasks):
        new = [score for score in scores if score.point not in found]
        backend.keep(new)
        found |= {score.point: score for score in new}
    return [found[point] for point in points]


def _refined(
    larger: _LargerMemories, backend: SearchBackend, scored: list[SystemScore], refined: dict[Point, RefinedSystem]
) -> RefinedSystem | None:
    """The best of all: systems whose low is below the best are refined in the order of lows, and written down.

    The one that is best with even plans is always among them, so that the best has its plans spelt out. By time, no
    system is better than one that differs in larger memories alone: of systems with equal lows the largest is refined
    first, and what is proven of it goes for the others, whose lows in `scored` are raised.
    """
    first = _leader(scored)
    if first.point not in refined:
        [refined[first.point]] = refined_window(backend, [first], first.loss)
    best = min(refined.values(), key=lambda system: (system.loss, system.point))
    left = sorted(scored, key=lambda score: (score.low, *larger.first(score.point), score.point))
    queue = [score for score in left if score.point not in refined]
    place_of = {score.point: place for place, score in enumerate(scored)}
    while queue and queue[0].low < best.loss:
        window: list[SystemScore] = []
        while queue and queue[0].low < best.loss and len(window) < REFINED_AT_ONCE:
            score = queue.pop(0)
            low = larger.proven_low(score.point)
            if low >= best.loss * (1 - CLOSE_FRAC) and not larger.is_below(score.point, best.point):
                scored[place_of[score.point]] = replace(score, low=max(score.low, low))
            elif larger.waits(score.point, window):
                queue.insert(0, score)
                break
            else:
                window.append(score)
        for system in refined_window(backend, window, best.loss):
            refined[system.point] = system
            larger.add(system.point, system.low)
            best = min(best, system, key=lambda system: (system.loss, system.point))
        num_left = sum(score.low < best.loss for score in queue)
        bound = min([best.loss, *(score.low for score in queue[:1])])
        backend.watch(
            Standing(phase="uneven plans", num_done=len(refined), num_open=num_left, loss=best.loss, bound=bound)
        )
    return best if math.isfinite(best.loss) else None


class _LargerMemories:
    """What was proven of systems, for those that differ from them in smaller memories alone; by time, else nothing.

    A memory of more bytes never makes a step longer: it lets more plans and more tiles in, and is as fast.
    """

    def __init__(self, question: JointQuestion, *, is_used: bool) -> None:
        names = CAPACITIES if is_used and question.metric is metrics["throughput"] else ()
        self._places = tuple(place for place, name in enumerate(KNOBS) if name in names)
        self._proven: dict[Point, list[tuple[Point, float]]] = {}

    def first(self, point: Point) -> Point:
        """A key by which larger memories come first; knobs have their values from small to large."""
        return tuple(-point[place] for place in self._places)

    def add(self, point: Point, low: float) -> None:
        self._proven.setdefault(self._others(point), []).append((point, low))

    def proven_low(self, point: Point) -> float:
        known = self._proven.get(self._others(point), ()) if self._places else ()
        return max((low for other, low in known if self.is_below(point, other)), default=-math.inf)

    def is_below(self, point: Point, other: Point) -> bool:
        """Whether `other` has all of `point` with no smaller memories, and one that is larger."""
        return (
            bool(self._places)
            and point != other
            and self._others(point) == self._others(other)
            and all(point[place] <= other[place] for place in self._places)
        )

    def waits(self, point: Point, window: Sequence[SystemScore]) -> bool:
        """Whether one with larger memories is about to be refined, which may settle it."""
        return any(self.is_below(point, score.point) for score in window)

    def _others(self, point: Point) -> Point:
        return tuple(value for place, value in enumerate(point) if place not in self._places)


def refined_window(backend: SearchBackend, scores: Sequence[SystemScore], worst: float) -> list[RefinedSystem]:
    new = [(score, worst) for score in scores if score.point not in backend.known_refined]
    found = {
        score.point: backend.known_refined[score.point] for score in scores if score.point in backend.known_refined
    }
    for system in backend.refine(new):
        backend.keep_refined([system])
        found[system.point] = system
    return [found[score.point] for score in scores]
