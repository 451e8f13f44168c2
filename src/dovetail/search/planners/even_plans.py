"""Plans whose layers are spread evenly over stages: all evaluated, or by time those that no lower bound rules out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from dovetail.parallel.placement import nesting
from dovetail.parallel.plan import Plans, joined
from dovetail.parallel.pools import framework_of
from dovetail.parallel.sharding import shard_plans
from dovetail.search.planners.bases import BaseQueue
from dovetail.search.planners.candidates import Candidate, Scoring, Tally, best_of, least_s
from dovetail.search.planners.cuts.stage_options import with_policies
from dovetail.search.planners.plan_space import PlanSpace, batches, num_grids
from dovetail.search.planners.refine import Job, base_plans, likely_plans
from dovetail.step.memory_needs import host_need_bytes, need_bytes
from dovetail.step.offload import does_offload, host_of
from dovetail.step.step import step_times
from dovetail.workload.graph import BoolArray

PLAN_BATCH = 150_000  # whose columns take some hundred MB
BASES_AT_ONCE = 50_000
MOST_TOGETHER = 3  # times as many, where they cut a model alike
BASES_EVALUATED_AT_ONCE = 500  # before the next look at what they have to beat
MOST_KEPT = 300_000  # base plans that are enumerated once, in some 50 MB; more are enumerated twice
NUM_SAMPLED = 1_000  # base plans from all over the space that are looked at first, so that bounds have what to beat
SAMPLES_EVALUATED_AT_ONCE = 100


class PlanProgress(Protocol):
    """Called as a search goes on with grids of degrees done, their number, and the best score so far.

    While stages are re-partitioned, base plans are counted in place of grids, and `bound_s` is the lower bound. `best`
    has the best plan so far, once there is one. What it raises ends the search and comes out of it.
    """

    def __call__(
        self,
        num_done: int,
        num_all: int,
        tally: Tally,
        score: float,
        bound_s: float = 0.0,
        best: tuple[Candidate, ...] = (),
        /,
    ) -> None: ...


PlanRules = Callable[[Plans], BoolArray]


def no_rules(plans: Plans) -> BoolArray:
    """All of them."""
    return np.ones(len(plans), dtype=bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenPlans:
    """The best even plans, what was met, and base plans that may be better with uneven stages."""

    best: tuple[Candidate, ...] = ()
    tally: Tally = field(default_factory=Tally)
    queue: BaseQueue = field(default_factory=BaseQueue)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenSearch:
    """What is searched, and how many of the best are wanted.

    `rules`: which plans of the space count, whatever their recompute. `framework`: whose own buffers are counted; where
    it is empty, those of what the cluster's chips run. By time, no plan is asked for that takes `limit_s` or longer.
    `queues_ranked`: base plans wait in the queue that may be among the best, and not only those that may be the best.
    """

    job: Job
    space: PlanSpace
    scoring: Scoring
    num_best: int
    progress: PlanProgress
    rules: PlanRules = no_rules
    framework: str = ""
    limit_s: float = np.inf
    queues_ranked: bool = False

    def all_evaluated(self) -> EvenPlans:
        """Every plan of the space, whatever the objective."""
        graph, num_devices = self.job.graph, self.job.cluster.num_devices
        even, num_done, num_all = EvenPlans(), 0, num_grids(self.space, graph, num_devices)
        for num_batches, plans in _chunks(self._batches(self.space), PLAN_BATCH):
            even = self._with(
                replace(even, tally=even.tally.met(len(plans))), nesting(plans, self.job.cluster.topology)
            )
            num_done += num_batches
            self._tell(num_done, num_all, even)
        return even

    def best_first(self, *, has_queue: bool) -> EvenPlans:
        """By time: base plans are bounded, and the even plans of those that may be among the best are evaluated."""
        graph, num_devices = self.job.graph, self.job.cluster.num_devices
        bases = replace(self.space, recompute=self.space.recompute[:1])
        num_done, num_all = 0, num_grids(bases, graph, num_devices)
        kept: list[Plans] = []
        even = self._sampled(bases, kept)
        self._tell(num_done, num_all, even)
        for num_batches, plans in _chunks(iter(kept) if kept else self._batches(bases), BASES_AT_ONCE):
            even = replace(even, tally=even.tally.met(len(plans) * len(self.job.policies)))
            even = self._bounded(
                even, nesting(plans, self.job.cluster.topology), BASES_EVALUATED_AT_ONCE, has_queue=has_queue
            )
            num_done += num_batches
            self._tell(num_done, num_all, even)
        is_found = even.best or np.isfinite(self.limit_s)
        return even if is_found else replace(even, tally=self._with_least(even.tally))

    def _batches(self, space: PlanSpace) -> Iterator[Plans]:
        cluster = self.job.cluster
        framework = self.framework or framework_of(cluster)
        for plans in batches(space, self.job.graph, cluster.num_devices, framework):
            kept = plans.at(np.flatnonzero(self.rules(plans)))
            if len(kept):
                yield kept

    def _tell(self, num_done: int, num_all: int, even: EvenPlans) -> None:
        self.progress(num_done, num_all, even.tally, even.best[0].score if even.best else np.inf, 0.0, even.best[:1])

    def _sampled(self, bases: PlanSpace, kept: list[Plans]) -> EvenPlans:
        """The best of a sample of plans of every grid, by bounds; all are bounded later, so not counted.

        `kept` takes all batches, unless they are too many.
        """
        graph, num_devices = self.job.graph, self.job.cluster.num_devices
        num_per_grid = max(1, NUM_SAMPLED // max(1, num_grids(bases, graph, num_devices)))
        samples, num_met = [], 0
        for batch in self._batches(bases):
            samples.append(batch.at(np.unique(np.linspace(0, len(batch) - 1, num_per_grid).astype(np.int64))))
            num_met += len(batch)
            kept.append(batch)
            if num_met > MOST_KEPT:
                kept.clear()
        if num_met > MOST_KEPT:
            kept.clear()
        if not samples:
            return EvenPlans()
        placed = nesting(joined(samples), self.job.cluster.topology)
        if not len(placed):
            return EvenPlans()
        likely, even = likely_plans(self.job, placed), EvenPlans()
        for start in range(0, len(likely), SAMPLES_EVALUATED_AT_ONCE):
            rows = np.arange(start, min(start + SAMPLES_EVALUATED_AT_ONCE, len(likely)))
            even = self._with(even, with_policies(likely.at(rows), self.job.policies))
            if np.isfinite(self._worst_s(even.best)):
                break
        return EvenPlans(best=even.best)

    def _bounded(self, even: EvenPlans, placed: Plans, num_at_once: int, *, has_queue: bool) -> EvenPlans:
        """With the base plans `placed`, which nest in the network; the best are evaluated, so many at once."""
        if not len(placed):
            return even
        bases = base_plans(self.job, placed, self._worst_s(even.best))
        order = np.argsort(bases.bounds_s, kind="stable")
        for start in range(0, len(order), num_at_once):
            rows = order[start : start + num_at_once]
            rows = rows[bases.bounds_s[rows] < self._worst_s(even.best)]
            if not len(rows):
                break
            even = self._with(even, with_policies(bases.plans.at(rows), self.job.policies))
        if has_queue:
            below_s = self._worst_s(even.best) if self.queues_ranked else least_s(even.best)
            even = replace(even, queue=even.queue.with_(bases, len(placed), below_s))
        return even

    def _worst_s(self, best: tuple[Candidate, ...]) -> float:
        """The step time below which a plan is among the best."""
        return min(self.limit_s, best[-1].step_s) if len(best) == self.num_best else self.limit_s

    def _with(self, even: EvenPlans, placed: Plans) -> EvenPlans:
        """With the plans `placed`, which nest in the network, evaluated.

        Fitting plans are sharded again for their steps: few cuts are left, and operators are costed per cut.
        """
        if not len(placed):
            return even
        job = self.job
        sharded = shard_plans(job.graph, placed)
        need = need_bytes(sharded, job.precision)
        is_fitting = need <= job.cluster.usable_bytes
        if does_offload(placed):
            is_fitting &= host_need_bytes(sharded, job.precision) <= host_of(job.cluster).share_bytes
        fits = np.flatnonzero(is_fitting)
        tally, best = even.tally.evaluated(len(placed), len(fits)).with_need(placed, need), even.best
        if len(fits):
            fitting = placed.at(fits)
            times = step_times(job.graph, fitting, job.cluster, job.precision)
            figures = self.scoring.figures(times.step_s, times.energy_j, need[fits])
            best = best_of((*best, *self.scoring.best(fitting, figures, self.num_best)), self.num_best)
        return replace(even, best=best, tally=tally)

    def _with_least(self, tally: Tally) -> Tally:
        """Where nothing fits: the plan that needs least of all, those included that a bound ruled out."""
        for _, plans in _chunks(self._batches(self.space), PLAN_BATCH):
            placed = nesting(plans, self.job.cluster.topology)
            if len(placed):
                need = need_bytes(shard_plans(self.job.graph, placed), self.job.precision)
                tally = tally.with_need(placed, need)
        return tally


def _chunks(batches_of_plans: Iterator[Plans], num_most: int) -> Iterator[tuple[int, Plans]]:
    """Batches joined until they are worth a call, and how many were joined.

    Batches of the same tensor and context degree follow each other and share cuts: they stay together as long as they
    are not too many.
    """
    waiting: list[Plans] = []
    num_waiting, before = 0, (0, 0)
    for batch in batches_of_plans:
        degrees = int(batch.tensor_parallel[0]), int(batch.context_parallel[0])
        is_large = num_waiting >= num_most and (degrees != before or num_waiting >= MOST_TOGETHER * num_most)
        if is_large:
            yield len(waiting), joined(waiting)
            waiting, num_waiting = [], 0
        waiting.append(batch)
        num_waiting, before = num_waiting + len(batch), degrees
    if waiting:
        yield len(waiting), joined(waiting)
