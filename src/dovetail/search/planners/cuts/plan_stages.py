"""One base plan and what its stages can be: how long pipelines of some of these take, and which plans they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.search.planners.bounds.pipeline_lower_bounds import pipeline_lower_bound_s
from dovetail.search.planners.cuts.stage_options import StageOptions
from dovetail.step.assembly import STRAIGHT
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines, schedule_name
from dovetail.workload.graph import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaceLowerBounds:
    """What no step of a plan takes less than, by what its slowest stage takes: (pace, step) in seconds each.

    `cuts` are some that may come close to it: options by stage.
    """

    bounds_by_pace: tuple[tuple[float, float], ...]  # style: pairs of seconds
    cuts: IntArray

    @property
    def least_s(self) -> float:
        return min((lower_bound_s for _, lower_bound_s in self.bounds_by_pace), default=np.inf)

    def pace_below_s(self, step_s: float) -> float:
        """The slowest pace that leaves a step below `step_s`; none leaves it where this is negative."""
        return max((pace_s for pace_s, lower_bound_s in self.bounds_by_pace if lower_bound_s < step_s), default=-np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanStages:
    """`options` are those of `plan` alone; a pipeline is a row of them for every stage, -1 where nothing fits."""

    plan: Plan
    options: StageOptions
    num_microbatches: int
    transfer_s: float

    @property
    def paid_s(self) -> float:
        """What transfers that are not beside compute add to a stage's microbatch."""
        num_ways = 2 * self.plan.num_copies * self.plan.interleave
        return 0.0 if self.plan.overlap.pipeline else num_ways * self.transfer_s

    @property
    def lag_s(self) -> float:
        return self.transfer_s if self.plan.overlap.pipeline else 0.0

    @property
    def num_passes(self) -> float:
        return self.num_microbatches / self.plan.num_copies

    @property
    def can_walk(self) -> bool:
        """Whether the longest way through its pipeline is that of `walked_cuts`."""
        return schedule_name(self.plan) == "1f1b" and self.num_microbatches > self.plan.pipeline_parallel

    @property
    def ways_s(self) -> float:
        """Transfers beside compute that the first and the last microbatch wait for."""
        return 2 * (self.plan.pipeline_parallel - 1) * self.lag_s

    def steps_s(self, rows: IntArray) -> FloatArray:
        """Seconds of each of the pipelines, pipelines by stages; infinite where some stage does not fit."""
        times = StageTimes(
            forward_s=np.append(self.options.forward_s, 0.0)[rows] + self.paid_s / 2,
            backward_s=np.append(self.options.backward_s, 0.0)[rows] + self.paid_s / 2,
            weight_s=np.append(self.options.weight_s, 0.0)[rows],
            transfer_s=np.full(len(rows), self.lag_s),
        )
        return np.where(
            (rows >= 0).all(axis=1), pipelines[schedule_name(self.plan)].pipeline_s(times, self._shape), np.inf
        )

    def lower_bound_s(self, sum_s: float, pace_s: float) -> float:
        """No pipeline whose stages take so long together, and one of them as long as that, is faster."""
        return float(self.lower_bounds_s(sum_s, np.array([pace_s]))[0])

    def lower_bounds_s(self, sum_s: float, pace_s: FloatArray) -> FloatArray:
        """As `lower_bound_s`, by pace."""
        num_stages = self.plan.pipeline_parallel
        return pipeline_lower_bound_s(
            schedule_name(self.plan),
            np.full(len(pace_s), sum_s + num_stages * self.paid_s),
            pace_s + self.paid_s,
            np.full(len(pace_s), self.lag_s),
            self._shape,
        )

    @property
    def is_straight(self) -> bool:
        """Whether the last stage works from the first microbatch's arrival on until the last one leaves it."""
        return schedule_name(self.plan) in STRAIGHT

    def last_lower_bound_s(self, sum_s: float) -> FloatArray:
        """Of pipelines that are straight, by option if that is the last stage: the way there and back, and its work."""
        ways_s = sum_s + self.plan.pipeline_parallel * self.paid_s + self.ways_s
        return np.asarray(ways_s + (self.num_microbatches - 1) * (self.options.time_s + self.paid_s))

    def plan_of(self, rows: IntArray, layers_per_stage: tuple[int, ...]) -> Plan:
        """The plan whose stages are these options."""
        options = self.options.at(rows)
        policies = tuple(
            RECOMPUTE_POLICIES[policy] if again else "none"
            for policy, again in zip(options.policy, options.num_again, strict=True)
        )
        each = zip(policies, options.num_again, options.num_layers, strict=True)
        is_whole = [policy == "none" or again == num for policy, again, num in each]
        counts = () if all(is_whole) else tuple(int(again) for again in options.num_again)
        return replace(
            self.plan,
            recompute=policies if len(set(policies)) > 1 else policies[:1],
            recompute_layers=counts if len(set(counts)) > 1 else counts[:1],
            layers_per_stage=layers_per_stage,
        )

    @property
    def _shape(self) -> PipelineShape:
        return PipelineShape(
            num_stages=self.plan.pipeline_parallel,
            num_microbatches=self.num_microbatches,
            interleave=self.plan.interleave,
        )
