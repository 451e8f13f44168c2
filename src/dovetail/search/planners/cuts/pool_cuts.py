"""Layers by stage of one plan on a cluster of several pools: what each stage takes with so many, and the best cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.search.planners.cuts.stage_options import StageOptions
from dovetail.search.planners.least_pace import Cut, least_pace_s, least_sum
from dovetail.step.hops import sending_kinds
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines, schedule_name
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

MAX_CUTS = 4096  # that are looked at to prove that none is faster
MAX_MOVES = 48  # layers that are moved one after the other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolTable:
    """The fastest option for every stage and number of layers of one plan; its row, or -1 where nothing fits.

    Numbers of layers that were not asked about have none either: they are known to be of no use (`pools`).
    """

    plan: Plan  # with its stages on pools
    options: StageOptions
    row: IntArray  # stages by layers, from none on
    num_layers: int
    num_microbatches: int
    transfer_s: FloatArray  # by kind of hop

    @property
    def paid_s(self) -> tuple[FloatArray, FloatArray]:
        """What hand-overs that are not beside compute add to each stage's passes, forward and backward."""
        on, back = sending_kinds(self.plan.stage_pools, goes_round=schedule_name(self.plan) == "interleaved")
        share = 0.0 if self.plan.overlap.pipeline else float(self.plan.interleave)
        return share * self.transfer_s[on], share * self.transfer_s[back]

    @property
    def time_s(self) -> FloatArray:
        """Seconds of a microbatch on each stage by its layers; infinite where nothing fits."""
        on_s, back_s = self.paid_s
        return np.append(self.options.time_s, np.inf)[self.row] + (on_s + back_s)[:, None]

    def steps_s(self, layers: IntArray) -> FloatArray:
        """Seconds of the pipeline by each row of layers by stage; infinite where some stage does not fit."""
        rows = self.row[np.arange(layers.shape[1]), layers]
        on_s, back_s = self.paid_s
        lag_s = self.transfer_s if self.plan.overlap.pipeline else 0 * self.transfer_s
        times = StageTimes(
            forward_s=np.append(self.options.forward_s, 0.0)[rows] + on_s,
            backward_s=np.append(self.options.backward_s, 0.0)[rows] + back_s,
            weight_s=np.append(self.options.weight_s, 0.0)[rows],
            transfer_s=np.tile(lag_s, (len(layers), 1)),
            stage_pool=self.plan.stage_pools,
        )
        shape = PipelineShape(
            num_stages=self.plan.pipeline_parallel,
            num_microbatches=self.num_microbatches,
            interleave=self.plan.interleave,
        )
        return np.where((rows >= 0).all(axis=1), pipelines[schedule_name(self.plan)].pipeline_s(times, shape), np.inf)


def pool_table(
    plan: Plan, options: StageOptions, num_layers: int, num_microbatches: int, transfer_s: FloatArray
) -> PoolTable:
    """`options` are those of `plan`."""
    row = np.full((plan.pipeline_parallel, num_layers + 1), -1)
    order = np.lexsort((options.num_again, options.time_s))[::-1]  # the fastest is written last
    row[options.stage[order], options.num_layers[order]] = order
    return PoolTable(
        plan=plan,
        options=options,
        row=row,
        num_layers=num_layers,
        num_microbatches=num_microbatches,
        transfer_s=transfer_s,
    )


def proposed(table: PoolTable) -> list[tuple[IntArray, float]]:
    """Layers by stage from the least pace, improved by moves of one layer, and the pipeline's seconds.

    None where nothing fits.
    """
    layers = _least_pace(table)
    if layers is None:
        return []
    step_s = float(table.steps_s(layers[None])[0])
    stages = np.eye(len(layers), dtype=np.int64)
    moves = (stages[:, None] - stages[None, :]).reshape(-1, len(layers))
    for _ in range(MAX_MOVES):
        near = layers + moves
        near = near[(near >= 0).all(axis=1) & (near < table.row.shape[1]).all(axis=1)]
        near_s = table.steps_s(near)
        if not near_s.min() < step_s:
            break
        layers, step_s = near[int(near_s.argmin())], float(near_s.min())
    return [(layers, step_s)]


def _least_pace(table: PoolTable) -> IntArray | None:
    """The least pace, and of the cuts with it the least sum, as if no stage were faster with more layers."""
    time_s = table.time_s
    # below the fewest that were asked about a stage takes no less than nothing, beyond the most it cannot be
    is_below = np.cumsum(table.row >= 0, axis=1) == 0
    time_s = np.maximum.accumulate(np.where(is_below, 0.0, time_s), axis=1)[None]
    fewest = is_below.sum(axis=1)
    left = table.num_layers - int(fewest.sum())
    if left < 0 or (table.row < 0).all(axis=1).any():
        return None
    # units are layers beyond the fewest of each stage
    places = np.minimum(fewest[:, None] + np.arange(left + 1), time_s.shape[2] - 1)
    beyond = fewest[:, None] + np.arange(left + 1) >= time_s.shape[2]
    units_s = np.where(beyond, np.inf, time_s[0, np.arange(len(fewest))[:, None], places])[None]
    cut = Cut(num_units=np.array([left]), is_stage=np.ones((1, len(fewest)), dtype=bool), min_units=0)
    pace_s = np.maximum(least_pace_s(cut, units_s), units_s[:, :, 0].max(axis=1))
    if not np.isfinite(pace_s[0]):
        return None
    num_most = (units_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2)
    layers = np.asarray(fewest + least_sum(cut, units_s, num_most, np.array([True]))[0])
    return layers if (table.row[np.arange(len(layers)), layers] >= 0).all() else None


def cuts_within(table: PoolTable, pace_s: float) -> IntArray | None:
    """All layers by stage that fit of which no stage takes longer than `pace_s`; None where they are too many."""
    is_allowed = table.time_s <= pace_s
    ways = _ways(is_allowed, table.num_layers)
    if ways[0, table.num_layers] > MAX_CUTS:
        return None
    cuts = np.zeros((1, 0), dtype=np.int64)
    left = np.array([table.num_layers])
    for stage, allowed in enumerate(is_allowed):
        counts = np.flatnonzero(allowed)
        rest = left[:, None] - counts
        is_open = (rest >= 0) & (ways[stage + 1, np.maximum(rest, 0)] > 0)
        row, which = np.nonzero(is_open)
        cuts = np.column_stack([cuts[row], counts[which]])
        left = rest[row, which]
    return cuts


def _ways(is_allowed: BoolArray, num_layers: int) -> FloatArray:
    """In how many ways the stages from each on hold so many layers: stages and one by layers."""
    num_stages = len(is_allowed)
    ways = np.zeros((num_stages + 1, num_layers + 1))
    ways[num_stages, 0] = 1.0
    for stage in range(num_stages - 1, -1, -1):
        for count in np.flatnonzero(is_allowed[stage]):
            ways[stage, count:] += ways[stage + 1, : num_layers + 1 - count]
    return ways


def plan_of(table: PoolTable, layers: IntArray) -> Plan:
    """The plan whose stages hold `layers`, each with its fastest recompute."""
    options = table.options.at(table.row[np.arange(len(layers)), layers])
    policies = tuple(
        RECOMPUTE_POLICIES[policy] if again else "none"
        for policy, again in zip(options.policy, options.num_again, strict=True)
    )
    is_whole = [p == "none" or again == n for p, again, n in zip(policies, options.num_again, layers, strict=True)]
    counts = () if all(is_whole) else tuple(int(again) for again in options.num_again)
    return replace(
        table.plan,
        recompute=policies if len(set(policies)) > 1 else policies[:1],
        recompute_layers=counts if len(set(counts)) > 1 else counts[:1],
        layers_per_stage=by_chunk(table.plan, layers),
    )


def by_chunk(plan: Plan, layers: IntArray) -> tuple[int, ...]:
    """Layers of each chunk, those of a stage as equal as can be."""
    left, seen, chunks = layers.tolist(), [0] * len(layers), []
    for [stage] in plan.chunk_stages:
        chunks.append(-(-left[stage] // (plan.interleave - seen[stage])))
        left[stage] -= chunks[-1]
        seen[stage] += 1
    return tuple(chunks)
