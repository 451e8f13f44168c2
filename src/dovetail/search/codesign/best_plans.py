"""The best plan of one model on each of many chips of one network: bounded, then evaluated where that may win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.search.codesign.plan_sets import PlanSet
from dovetail.search.planners.bounds.step_lower_bounds import step_bounds
from dovetail.step.chip_free_costs import ChipFreeCosts
from dovetail.step.step import even_times
from dovetail.step.work import ChipRows
from dovetail.step.work_table import ChipWorks
from dovetail.workload.graph import FloatArray, IntArray

NUM_FIRST = 3  # base plans of each chip that are evaluated before any is ruled out
NO_PLAN = -1

# Losses of steps and joules on the chips of given places; a low has the joules of being on alone.
Losses = Callable[[FloatArray, FloatArray, IntArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BestPlans:
    """Of each chip: the best even plan, and a loss that none of its plans, uneven ones on request, is below.

    `plan` is which of the frame's even plans, or NO_PLAN where none fits or all are worse than the requested loss.
    """

    plan: IntArray
    loss: FloatArray
    step_s: FloatArray
    energy_j: FloatArray
    low: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chips:
    """Chips of one network and memory, with what a microbatch computes on each at least: PLACES by cuts by chips."""

    columns: ChipColumns
    rows: ChipRows
    hbm_bytes: float
    compute_s: FloatArray

    def __len__(self) -> int:
        return len(self.columns)


def best_plans(plan_set: PlanSet, chips: Chips, losses: Losses, worst: FloatArray, *, is_even_only: bool) -> BestPlans:
    """Plans whose loss is below `worst`, by chip; what is above is only bounded.

    With `is_even_only` a base plan is closed once its even plans are evaluated, whatever the metric.
    """
    search = _Search(plan_set, chips, losses)
    lower_bounds = search.affine_lower_bounds()
    first = np.argsort(lower_bounds, axis=0, kind="stable")[:NUM_FIRST]
    search.evaluate(first.ravel(), np.tile(np.arange(len(chips)), len(first)))
    bar = np.minimum(search.loss, worst)
    base, chip = np.nonzero(lower_bounds < bar)
    if len(base):
        lower_bounds[base, chip] = np.maximum(lower_bounds[base, chip], search.step_lower_bounds(base, chip, bar))
        base, chip = np.nonzero(lower_bounds < bar)
        search.evaluate(base, chip)
    if is_even_only:
        lower_bounds[search.is_done] = np.inf
    least = np.minimum(lower_bounds.min(axis=0, initial=np.inf), search.loss)
    return BestPlans(plan=search.plan, loss=search.loss, step_s=search.step_s, energy_j=search.energy_j, low=least)


class _Search:
    """Rows of the frame's plans on every chip, and the best of them so far."""

    def __init__(self, plan_set: PlanSet, chips: Chips, losses: Losses) -> None:
        self._plan_set, self._chips, self._losses = plan_set, chips, losses
        self._cluster = plan_set.with_memory(chips.hbm_bytes)
        self._num_policies = len(plan_set.policies)
        self._fits = plan_set.need_bytes <= self._cluster.usable_bytes
        self.is_done = np.zeros((len(plan_set.bases), len(chips)), dtype=bool)
        self._works: list[tuple[ChipFreeCosts, ChipWorks]] = []
        self.plan = np.full(len(chips), NO_PLAN, dtype=np.int64)
        self.loss, self.step_s, self.energy_j = (np.full(len(chips), np.inf) for _ in range(3))

    def affine_lower_bounds(self) -> FloatArray:
        """Losses that no plan of each base plan is below, bases by chips; infinite where none fits."""
        plan_set, chips = self._plan_set, self._chips
        lines, found = plan_set.lines, np.full((len(plan_set.bases), len(chips)), np.inf)
        bases, step_s = lines.of_bases(plan_set.fitting(chips.hbm_bytes)).least_s(chips.compute_s)
        chip = np.broadcast_to(np.arange(len(chips)), step_s.shape)
        found[bases] = self._lower_bounds(step_s.ravel(), chip.ravel()).reshape(step_s.shape)
        return found

    def step_lower_bounds(self, base: IntArray, chip: IntArray, bar: FloatArray) -> FloatArray:
        """As `affine_lower_bounds`, of pairs, as tight as can be below a `bar` for each chip."""
        plans, plan = self._plan_set.some(base)
        works = self._on(plans)
        context = plans.pairs(works, plan, chip, self._cluster)
        a_second = self._lower_bounds(np.ones(len(bar)), np.arange(len(bar)))  # losses grow with the step
        worst_s = float((bar / a_second)[chip].max())
        lines_s = self._plan_set.pair_lower_bounds_s(base, context)
        return self._lower_bounds(
            np.maximum(lines_s, step_bounds(context, self._plan_set.policies, worst_s).step_s), chip
        )

    def _on(self, plans: ChipFreeCosts) -> ChipWorks:
        """What plans do on the chips; of the same frame it is worked out once."""
        if not self._works or self._works[-1][0] is not plans:
            self._works.append((plans, plans.on(self._chips.columns, self._chips.rows)))
        return self._works[-1][1]

    def _lower_bounds(self, step_s: FloatArray, chip: IntArray) -> FloatArray:
        idle_w = self._chips.rows.energy.idle_w[chip]
        return self._losses(step_s, idle_w * self._plan_set.cluster.num_devices * step_s, chip)

    def evaluate(self, base: IntArray, chip: IntArray) -> None:
        """Even plans of these pairs that fit, under every policy."""
        is_new = ~self.is_done[base, chip]
        base, chip = base[is_new], chip[is_new]
        self.is_done[base, chip] = True
        policy = np.tile(np.arange(self._num_policies), len(base))
        base, chip = np.repeat(base, self._num_policies), np.repeat(chip, self._num_policies)
        fits = np.flatnonzero(self._fits[base * self._num_policies + policy])
        if not len(fits):
            return
        base, chip, policy = base[fits], chip[fits], policy[fits]
        plans, first = self._plan_set.some(base)
        works = self._on(plans)
        times = even_times(plans.pairs(works, first + policy, chip, self._cluster))
        plan = base * self._num_policies + policy
        loss = self._losses(times.step_s, times.energy_j, chip)
        order = np.lexsort((plan, loss))
        chips, first = np.unique(chip[order], return_index=True)
        best = order[first]
        is_better = (loss[best] < self.loss[chips]) | (
            (loss[best] == self.loss[chips]) & (plan[best] < self.plan[chips])
        )
        chips, best = chips[is_better], best[is_better]
        self.plan[chips], self.loss[chips] = plan[best], loss[best]
        self.step_s[chips], self.energy_j[chips] = times.step_s[best], times.energy_j[best]
