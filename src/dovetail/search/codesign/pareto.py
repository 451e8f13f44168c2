"""The systems that no other is better than on every axis, exactly: bounded, the lowest first, and scored where open.

A system's loss is bounded; what it takes and costs is known. Where a system that was scored is no worse than these on
any axis, nothing has to be known of the other. Systems go in the order of their bounds on the first axis: whatever
beats a bound has a lower one itself and comes first, so no order leaves fewer to be scored.

Figures are compared as 32-bit floats: they differ by rounding in the last places of 64, and half as many bytes are
held. Rounding keeps their order, so a bound stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.search.codesign.dominance import Figures, Ranked, front_of, no_systems, open_to, sorted_rows
from dovetail.search.codesign.joint import SearchCounts, counted, places_at
from dovetail.search.codesign.question import JointQuestion, places_of, systems_at
from dovetail.search.codesign.scoring import Scorer, SystemScore, priced
from dovetail.search.codesign.system_bounds import NUM_COUNTS, Bounds
from dovetail.search.codesign.systems import KNOBS, NETWORK, built_systems
from dovetail.search.metrics import metrics
from dovetail.search.space import Point
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

TAKEN = ("area", "power", "cost")  # of all devices, known before any plan is
ENERGY = "energy"
DEFAULT_AXES = ("throughput", *TAKEN)
BOUNDED_AT_ONCE = 200_000  # points of a task
FEWEST = 1024  # systems scored between two looks at the front
TASK = 256  # systems scored in one task


def checked_axes(names: Sequence[str]) -> tuple[str, ...]:
    """Axes by name: at least two, each once, and one metric at most."""
    known = (*metrics.names(), *TAKEN, ENERGY)
    for name in names:
        if name not in known:
            raise InvalidInput(f"no axis is named {name!r}{did_you_mean(name, known)}", "--axes")
    if len(names) < 2 or len(set(names)) < len(names):
        raise InvalidInput(f"a front needs two axes or more, each once; got {','.join(names) or 'none'}", "--axes")
    if len([name for name in names if name in metrics.names()]) > 1:
        raise InvalidInput(f"plans are best by one metric; got {','.join(names)}; keep one of them", "--axes")
    return tuple(sorted(names, key=lambda name: (name not in metrics.names(), name != ENERGY, known.index(name))))


def metric_of(axes: Sequence[str]) -> str:
    """What plans are best by: the metric among the axes, else throughput."""
    return next((name for name in axes if name in metrics.names()), DEFAULT_AXES[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontStanding:
    """How far a search is: points bounded; then systems that are open, those scored, and those on the front so far."""

    num_points: int
    num_bounded: int
    num_open: int
    num_scored: int
    num_front: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSystem:
    """A system that no other beats: its best even plans, and what all its devices take and cost."""

    score: SystemScore
    area_mm2: float
    power_w: float
    price_usd: float
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParetoFound:
    """All of the front, the best by the first axis first, and what became of all systems."""

    axes: tuple[str, ...]
    systems: tuple[FrontSystem, ...]
    census: SearchCounts
    energy_bound_frac: float  # the bound on a step's joules over what was scored, at the middle; 0 without systems


Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoBackend:
    """Who does the work, keeps it and gets reports: tasks in order, answers in the same order."""

    bound: Callable[[Iterable[tuple[Span, tuple[str, ...]]]], Iterator[tuple[Figures, IntArray]]]
    score: Callable[[Iterable[tuple[Sequence[Point], float]]], Iterator[list[SystemScore]]]
    known: Mapping[Point, SystemScore] = field(default_factory=dict)
    keep: Callable[[Iterable[SystemScore]], None] = lambda _: None
    watch: Callable[[FrontStanding], None] = lambda _: None


def local_backend(scorer: Scorer) -> ParetoBackend:
    """This process, which remembers nothing."""
    return ParetoBackend(
        bound=lambda tasks: (bounded(scorer, *task) for task in tasks),
        score=lambda tasks: (scorer.score(points, worst) for points, worst in tasks),
    )


def bounded(scorer: Scorer, span: Span, axes: tuple[str, ...]) -> tuple[Figures, IntArray]:
    """Figures by axis that points of a span are not below, infinite where they are no system that may fit; counts."""
    bounds = scorer.bounds(places_at(scorer.question, np.arange(*span)))
    columns = [_column(axis, bounds) for axis in axes]
    figures = np.stack(columns).astype(np.float32)
    figures[:, ~np.isfinite(bounds.low)] = np.inf
    return figures, bounds.counts


def _column(axis: str, bounds: Bounds) -> FloatArray:
    if axis == ENERGY:
        return bounds.energy_j
    if axis not in TAKEN:
        return bounds.low
    taken = {
        "area": bounds.area_mm2,
        "power": bounds.power_w + bounds.network_w,
        "cost": bounds.price_usd + bounds.network_usd,
    }
    return priced(np.asarray(taken[axis] * bounds.num_devices))


def pareto_front(question: JointQuestion, backend: ParetoBackend, axes: tuple[str, ...]) -> ParetoFound:
    """Every system of a question that no other within the limits beats on `axes`, as `checked_axes` orders them."""
    return _Sweep(question, backend, axes).found()


class _Sweep:
    """Systems in the order of their bounds, and what is known of them so far."""

    def __init__(self, question: JointQuestion, backend: ParetoBackend, axes: tuple[str, ...]) -> None:
        self._question, self._backend, self._axes = question, backend, axes
        self._num_points = question.space.num_points
        self._kept = no_systems(len(axes))
        self._on_front: dict[int, SystemScore] = {}
        self._num_scored = 0
        self._shares: list[FloatArray] = []  # of energy: bounds over what was scored
        self._lower_bounds, self._counts = self._bounded()

    def _bounded(self) -> tuple[Figures, IntArray]:
        """Of every point, in the order of the space."""
        figures_of_points = np.empty((len(self._axes), self._num_points), dtype=np.float32)
        counts = np.zeros(NUM_COUNTS, dtype=np.int64)
        starts = range(0, self._num_points, BOUNDED_AT_ONCE)
        spans = [(start, min(start + BOUNDED_AT_ONCE, self._num_points)) for start in starts]
        for (start, end), (figures, batch_counts) in zip(
            spans, self._backend.bound([(span, self._axes) for span in spans]), strict=True
        ):
            figures_of_points[:, start:end] = figures
            counts += batch_counts
            self._tell(end, 0)
        return figures_of_points, counts

    def found(self) -> ParetoFound:
        order = np.flatnonzero(np.isfinite(self._lower_bounds[0]))
        order = order[sorted_rows(self._systems(order))].astype(np.int32)
        left = order
        while len(left):
            layer = self._layer(left)
            left = left[~layer]
            left = left[open_to(self._systems(left), self._kept)] if len(left) else left
            self._tell(self._num_points, len(left))
        return self._answer(len(order))

    def _layer(self, left: IntArray) -> BoolArray:
        """Scores the systems of `left` whose bounds no others' bounds beat, and says which they were.

        What beats a system has bounds that beat its bounds: nothing but scoring settles these. Where they are few, so
        are those that only they beat, as many are scored sooner than few by few.
        """
        is_taken = np.zeros(len(left), dtype=bool)
        while not is_taken.all() and is_taken.sum() < FEWEST:
            rows = np.flatnonzero(~is_taken)
            is_taken[rows[front_of(self._systems(left[rows]))]] = True
        self._score(self._systems(left[is_taken]))
        return is_taken

    def _systems(self, number: IntArray) -> Ranked:
        return Ranked(number=number.astype(np.int64), figures=self._lower_bounds[:, number])

    def _score(self, systems: Ranked) -> None:
        points = _points(self._question, systems.number)
        known = {point: self._backend.known[point] for point in points if point in self._backend.known}
        new = _by_network([point for point in points if point not in known])
        for scores in self._backend.score([(group, math.inf) for group in new]):
            self._backend.keep(scores)
            known |= {score.point: score for score in scores}
        self._num_scored += len(points)
        fits = np.array([math.isfinite(known[point].loss) for point in points])
        scores = [score for score in (known[point] for point in points) if math.isfinite(score.loss)]
        systems = systems.at(fits)
        if scores:
            self._take(systems, scores)

    def _take(self, systems: Ranked, scores: list[SystemScore]) -> None:
        """Puts systems on the front where they belong there."""
        figures = systems.figures.copy()
        for row, axis in enumerate(self._axes):
            if axis == ENERGY:
                figures[row] = self._energy_j(scores)
                self._shares.append(systems.figures[row] / figures[row])
            elif axis not in TAKEN:
                figures[row] = [score.loss for score in scores]
        ranked = self._kept.with_others(Ranked(number=systems.number, figures=figures))
        ranked = ranked.at(sorted_rows(ranked))
        self._kept = ranked.at(front_of(ranked))
        known = self._on_front | dict(zip(systems.number.tolist(), scores, strict=True))
        self._on_front = {number: known[number] for number in self._kept.number.tolist()}

    def _energy_j(self, scores: list[SystemScore]) -> FloatArray:
        return self._question.mean(np.array([[case.energy_j for case in score.cases] for score in scores]).T)

    def _answer(self, num_open: int) -> ParetoFound:
        scores = [self._on_front[number] for number in self._kept.number.tolist()]
        shares = np.concatenate([*self._shares, np.zeros(0)])
        return ParetoFound(
            axes=self._axes,
            systems=front_systems(self._question, scores, self._energy_j(scores) if scores else np.zeros(0)),
            census=replace(
                counted(self._counts),
                num_pruned=num_open - self._num_scored,
                num_scored=self._num_scored,
            ),
            energy_bound_frac=float(np.median(shares)) if len(shares) else 0.0,
        )

    def _tell(self, num_bounded: int, num_open: int) -> None:
        self._backend.watch(
            FrontStanding(
                num_points=self._num_points,
                num_bounded=num_bounded,
                num_open=num_open,
                num_scored=self._num_scored,
                num_front=len(self._kept),
            )
        )


def _points(question: JointQuestion, number: IntArray) -> list[Point]:
    columns = np.stack(list(places_at(question, number).values()), axis=1)
    return [tuple(row) for row in columns.tolist()]


def _by_network(points: list[Point]) -> list[list[Point]]:
    """Tasks of points with one network each as far as can be: what is worked out for one serves all."""
    first = [KNOBS.index(name) for name in (*NETWORK, "hbm_stacks", "stack_gib")]
    ordered = sorted(points, key=lambda point: ([point[place] for place in first], point))
    return [ordered[start : start + TASK] for start in range(0, len(ordered), TASK)]


def front_systems(
    question: JointQuestion, scores: Sequence[SystemScore], energy_j: FloatArray
) -> tuple[FrontSystem, ...]:
    if not scores:
        return ()
    systems = systems_at(question.space, places_of([score.point for score in scores]))
    built, num = built_systems(question.base, systems), systems["num_devices"]
    return tuple(
        FrontSystem(
            score=score,
            area_mm2=float(num[row] * built.area_mm2[row]),
            power_w=float(num[row] * built.joined_w[row]),
            price_usd=float(num[row] * built.joined_usd[row]),
            energy_j=float(energy_j[row]),
        )
        for row, score in enumerate(scores)
    )
