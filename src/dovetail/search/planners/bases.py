"""Base plans, whose layers by stage and recompute are left open: their bounds, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.parallel.plan import Plans, joined
from dovetail.search.planners.candidates import Found
from dovetail.workload.graph import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BasePlans:
    """Plans whose `recompute` is left open, and a lower bound on the step of each."""

    plans: Plans
    bounds_s: FloatArray
    per_step_s: FloatArray  # that every step has at least beside its pipeline

    def __len__(self) -> int:
        return len(self.plans)

    def below(self, step_s: float) -> BasePlans:
        """Those that may be faster than this."""
        rows = np.flatnonzero(self.bounds_s < step_s)
        return self.at(rows)

    def at(self, rows: IntArray) -> BasePlans:
        return BasePlans(plans=self.plans.at(rows), bounds_s=self.bounds_s[rows], per_step_s=self.per_step_s[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BaseQueue:
    """Base plans met so far that may beat the best plan, and how many were met in all."""

    waiting: tuple[BasePlans, ...] = ()
    num_all: int = 0

    def with_(self, bases: BasePlans, num_met: int, best_s: float) -> BaseQueue:
        """With those of `bases` that may beat the best plan, out of `num_met`."""
        return BaseQueue(waiting=(*self.waiting, bases.below(best_s)), num_all=self.num_all + num_met)

    def below(self, best_s: float) -> BasePlans:
        """Those whose bounds are below this; there must have been some."""
        below_best = [bases.below(best_s) for bases in self.waiting]
        return BasePlans(
            plans=joined([each.plans for each in below_best]),
            bounds_s=np.concatenate([each.bounds_s for each in below_best]),
            per_step_s=np.concatenate([each.per_step_s for each in below_best]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refined:
    """Plans found, and what became of the base plans: which were refined, and a time that no plan of each is below.

    No time is above the best that was known in the end, as nothing beyond was looked for.
    """

    found: tuple[Found, ...]
    best_s: float
    is_refined: BoolArray
    bounds_s: FloatArray

    @property
    def num_refined(self) -> int:
        return int(self.is_refined.sum())

    @property
    def num_closed(self) -> int:
        """Base plans that were refined and hold none faster than the best."""
        return int((self.bounds_s[self.is_refined] >= self.best_s).sum())

    @property
    def num_open(self) -> int:
        """Base plans that may still hold a faster plan."""
        return int((self.bounds_s < self.best_s).sum())

    @property
    def bound_s(self) -> float:
        """What no plan of any of them is below."""
        return float(self.bounds_s.min(initial=self.best_s))
