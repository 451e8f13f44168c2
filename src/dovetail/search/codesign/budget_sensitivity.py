"""Limits of the best system: what lies beyond each of them alone, beyond all, and beyond the fewest that bind together.

Other systems count by plans of equal stages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dovetail.search.codesign.answers import SystemAnswer
from dovetail.search.codesign.joint import CHUNK, CLOSE_FRAC, LOWER_BOUND_BATCH, WINDOW, places_at
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.refining import system_at
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.system_bounds import Bounds
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray, IntArray

RAISED_FRAC = 0.25  # how far limits are raised
MOST_SCORED = 1024  # systems for one answer; some seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Better:
    """A better system beyond a limit: what it takes of that, and its gain over the best within."""

    system: dict[str, float]
    taken: float
    gain_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSensitivity:
    """A limit by its name in `Budget`, what the best takes of it, and what lies beyond it alone; `limit` and `taken`
    in the unit that its name ends with.

    `raised` is the first better system as the limit is raised, to a quarter more; `free` the best without it. Where
    `is_complete` is false, so many systems may be better that not all were scored.
    """

    name: str
    taken: float
    limit: float
    raised: Better | None
    free: Better | None
    is_complete: bool

    @property
    def is_binding(self) -> bool:
        return self.free is not None

    @property
    def gain_frac_per_unit(self) -> float:
        """Of the first better system, for each unit that it takes beyond the limit."""
        return 0.0 if self.raised is None else self.raised.gain_frac / (self.raised.taken - self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxedBudget:
    """The best system where the limits in `names` are lifted, its gain over the best within, and those it breaks.

    Where `is_complete` is false, so many systems may be better that not all were scored.
    """

    names: tuple[str, ...]
    system: dict[str, float]
    gain_frac: float
    broken: tuple[str, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSensitivities:
    """Each limit that is set, the best without all of them, and, where none binds alone, the fewest that do together.

    Of several such sets the one that gains most; nothing where nothing is better.
    """

    each: tuple[BudgetSensitivity, ...] = ()
    without_all: RelaxedBudget | None = None
    together: RelaxedBudget | None = None


def limits_of(budget: Budget) -> dict[str, float]:
    """Those that are set, by name."""
    return {name: getattr(budget, name) for name in Budget.__slots__ if math.isfinite(getattr(budget, name))}


def taken_of(
    area_mm2: FloatArray,
    power_w: FloatArray,
    price_usd: FloatArray,
    network_w: FloatArray,
    network_usd: FloatArray,
    num_devices: FloatArray,
) -> dict[str, FloatArray]:
    """What systems take of every limit, from what a device and its share of the network do."""
    return {
        "area_mm2": area_mm2,
        "power_w": power_w,
        "total_area_mm2": num_devices * area_mm2,
        "total_power_w": num_devices * (power_w + network_w),
        "total_usd": num_devices * (price_usd + network_usd),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ahead:
    """Systems, whatever their limits, that may be better than the best: numbers, lows and what they take of limits."""

    number: IntArray
    low: FloatArray
    taken: dict[str, FloatArray]


def budget_sensitivity(scorer: Scorer, best: SystemAnswer) -> BudgetSensitivities:
    """Of `best`, which keeps the limits of the scorer's question; sets of limits are tried from the smallest on."""
    limits = limits_of(scorer.question.budget)
    if not limits:
        return BudgetSensitivities()
    beyond = _Beyond(scorer, best, limits)
    each, names = tuple(beyond.sense(name) for name in limits), tuple(limits)
    without_all = beyond.lifted(names)
    together = None
    if without_all is not None and not any(one.is_binding for one in each):
        together = next(_sets(beyond, names), without_all)
    return BudgetSensitivities(each=each, without_all=without_all, together=together)


def _sets(beyond: _Beyond, names: tuple[str, ...]) -> Iterator[RelaxedBudget]:
    """Of every size from two on the set of limits that gains most together, where some does."""
    for size in range(2, len(names)):
        found = [
            one for relaxed_names in combinations(names, size) if (one := beyond.lifted(relaxed_names)) is not None
        ]
        if found:
            yield max(found, key=lambda one: one.gain_frac)


class _Beyond:
    """Systems that may be better than the best, whatever limits they break; each is scored once."""

    def __init__(self, scorer: Scorer, best: SystemAnswer, limits: dict[str, float]) -> None:
        self._scorer, self._limits, self._loss = scorer, limits, best.loss
        self._ahead = _ahead(scorer, best.loss, tuple(limits))
        self._known: dict[int, SystemScore] = {}
        self._own = taken_of(
            *(np.array(v) for v in (best.area_mm2, best.power_w, best.price_usd)),
            *(np.array(v) for v in (best.network_w, best.network_usd, float(best.num_devices))),
        )

    def sense(self, name: str) -> BudgetSensitivity:
        limit, ahead = self._limits[name], self._ahead
        rows = self._rows((name,))
        near = rows[ahead.taken[name][rows] <= limit * (1 + RAISED_FRAC)]
        near = near[np.lexsort((ahead.low[near], ahead.taken[name][near]))]
        first, is_first_settled = self._first_better(near)
        least, is_best_settled = self._best(rows)
        return BudgetSensitivity(
            name=name,
            taken=float(self._own[name]),
            limit=limit,
            raised=self._better(first, name),
            free=self._better(least, name),
            is_complete=is_first_settled and is_best_settled,
        )

    def lifted(self, names: tuple[str, ...]) -> RelaxedBudget | None:
        """The best where only the other limits hold; nothing where it is no better."""
        row, is_complete = self._best(self._rows(names))
        if row is None:
            return None
        score = self._known[row]
        return RelaxedBudget(
            names=names,
            system=system_at(self._scorer.question, score.point),
            gain_frac=self._loss / score.loss - 1.0,
            broken=tuple(name for name in names if self._ahead.taken[name][row] > self._limits[name]),
            is_complete=is_complete,
        )

    def _rows(self, names: Iterable[str]) -> IntArray:
        """Of systems that keep all limits but some of these, and break one of them, the most promising first."""
        taken, limits, lifted = self._ahead.taken, self._limits, set(names)
        keeps = np.ones(len(self._ahead.number), dtype=bool)
        breaks = np.zeros(len(self._ahead.number), dtype=bool)
        for name, limit in limits.items():
            if name in lifted:
                breaks |= taken[name] > limit
            else:
                keeps &= taken[name] <= limit
        rows = np.flatnonzero(keeps & breaks)
        return rows[np.argsort(self._ahead.low[rows], kind="stable")]

    def _first_better(self, rows: IntArray) -> tuple[int | None, bool]:
        """The first of `rows`, in their order, that is better; and whether that is certain."""
        for start in range(0, min(len(rows), MOST_SCORED), CHUNK):
            for row, loss in self._losses(rows[start : start + CHUNK]):
                if loss < self._loss * (1 - CLOSE_FRAC):
                    return row, True
        return None, len(rows) <= MOST_SCORED

    def _best(self, rows: IntArray) -> tuple[int | None, bool]:
        """The best of `rows`, which are in the order of their lows, where it is better; and whether that is certain."""
        found, least, lower_bounds = None, self._loss * (1 - CLOSE_FRAC), self._ahead.low
        for start in range(0, min(len(rows), MOST_SCORED), CHUNK * WINDOW):
            window = rows[start : start + CHUNK * WINDOW]
            window = window[lower_bounds[window] < least]
            if not len(window):
                return found, True
            for row, loss in self._losses(window):
                if loss < least:
                    found, least = row, loss
        behind = rows[MOST_SCORED:]
        return found, not len(behind) or bool(lower_bounds[behind[0]] >= least)

    def _losses(self, rows: IntArray) -> list[tuple[int, float]]:
        new = np.array([row for row in rows.tolist() if row not in self._known], dtype=np.int64)
        if len(new):
            places = places_at(self._scorer.question, self._ahead.number[new])
            points: list[Point] = [tuple(row) for row in np.stack(list(places.values()), axis=1).tolist()]
            self._known.update(zip(new.tolist(), self._scorer.score(points, self._loss), strict=True))
        return [(row, self._known[row].loss) for row in rows.tolist()]

    def _better(self, row: int | None, name: str) -> Better | None:
        if row is None:
            return None
        score, taken = self._known[row], float(self._ahead.taken[name][row])
        system = system_at(self._scorer.question, score.point)
        return Better(system=system, taken=taken, gain_frac=self._loss / score.loss - 1.0)


def _ahead(scorer: Scorer, loss: float, names: tuple[str, ...]) -> _Ahead:
    unlimited, num = scorer.under(Budget()), scorer.question.space.num_points
    numbers, lower_bounds, columns = [], [], []
    for start in range(0, num, LOWER_BOUND_BATCH):
        flat = np.arange(start, min(num, start + LOWER_BOUND_BATCH))
        bounds: Bounds = unlimited.bounds(places_at(scorer.question, flat))
        rows = np.flatnonzero(bounds.low < loss * (1 - CLOSE_FRAC))
        device = (bounds.area_mm2, bounds.power_w, bounds.price_usd)
        joined_by = (bounds.network_w, bounds.network_usd, bounds.num_devices)
        amounts_taken = taken_of(*(part[rows] for part in (*device, *joined_by)))
        numbers.append(flat[rows])
        lower_bounds.append(bounds.low[rows])
        columns.append([amounts_taken[name] for name in names])
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    taken = dict(zip(names, joined, strict=True))
    return _Ahead(number=np.concatenate(numbers), low=np.concatenate(lower_bounds), taken=taken)
