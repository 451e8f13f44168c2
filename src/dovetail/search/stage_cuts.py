"""Layers by stage of one plan, from what its stages can be: the least pace first, then neighbours of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import numpy as np

from dovetail.plan.plan import RECOMPUTE_POLICIES, Plan
from dovetail.plan.shard import layers_per_chunk
from dovetail.schedule.assembly import schedule_name
from dovetail.schedule.pipelines import PipelineShape, StageTimes, pipelines
from dovetail.search.planners.balance import Cut, least_pace_s, least_sum
from dovetail.search.stage_options import StageOptions
from dovetail.workload.graph import FloatArray, IntArray

MAX_CUTS = 4096  # that are looked at to prove that none is faster
MAX_MOVES = 24  # layers that are moved one after the other; pipelines of the catalogue's models stop after a few


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageTable:
    """The fastest option for every stage and number of layers of one plan; its row, or -1 where nothing fits."""

    plan: Plan
    options: StageOptions
    row: IntArray  # stages by layers
    fewest: int
    most: int  # asked about
    num_layers: int
    num_microbatches: int
    transfer_s: float

    @property
    def time_s(self) -> FloatArray:
        """Seconds of a stage by its layers: none below the fewest that it may hold, infinite where nothing fits."""
        time_s = np.append(self.options.time_s, np.inf)[self.row]  # the last stands for what does not fit
        time_s[:, : self.fewest] = 0.0
        return time_s

    @property
    def paid_s(self) -> float:
        """What transfers that are not beside compute add to a stage's microbatch."""
        num_ways = 2 * self.plan.num_copies * self.plan.interleave
        return 0.0 if self.plan.overlap.pipeline else num_ways * self.transfer_s

    def steps_s(self, layers: IntArray) -> FloatArray:
        """Seconds of the pipeline by each row of layers by stage; infinite where some stage does not fit."""
        rows = self.row[np.arange(layers.shape[1]), layers]
        times = StageTimes(
            forward_s=np.append(self.options.forward_s, 0.0)[rows] + self.paid_s / 2,
            backward_s=np.append(self.options.backward_s, 0.0)[rows] + self.paid_s / 2,
            weight_s=np.append(self.options.weight_s, 0.0)[rows],
            transfer_s=np.full(len(layers), self.transfer_s if self.plan.overlap.pipeline else 0.0),
        )
        return np.where((rows >= 0).all(axis=1), pipelines[schedule_name(self.plan)].step_s(times, self._shape), np.inf)

    @property
    def _shape(self) -> PipelineShape:
        return PipelineShape(
            num_stages=self.plan.pipeline_parallel,
            num_microbatches=self.num_microbatches,
            interleave=self.plan.interleave,
        )


def stage_table(
    plan: Plan,
    options: StageOptions,
    asked: tuple[int, int],
    num_layers: int,
    num_microbatches: int,
    transfer_s: float,
) -> StageTable:
    """`options` are those of `plan`, `asked` the fewest and most layers of a stage that they were asked for."""
    fewest, most = asked
    row = np.full((plan.pipeline_parallel, most + 2), -1)
    order = np.lexsort((options.num_again, options.time_s))[::-1]  # the fastest is written last
    row[options.stage[order], options.num_layers[order]] = order
    return StageTable(
        plan=plan,
        options=options,
        row=row,
        fewest=fewest,
        most=most,
        num_layers=num_layers,
        transfer_s=transfer_s,
        num_microbatches=num_microbatches,
    )


def best_layers(table: StageTable) -> tuple[IntArray, float]:
    """Layers by stage and the pipeline's seconds: from the least pace, and from an even cut, by moves of a layer.

    Infinite where none was found that fits.
    """
    starts = [layers for layers in (_least_pace(table), _even(table)) if layers is not None]
    if not starts:
        return np.empty(0, dtype=np.int64), np.inf
    steps_s = table.steps_s(np.stack(starts))
    layers, step_s = starts[int(steps_s.argmin())], float(steps_s.min())
    num_stages = len(layers)
    moves = np.eye(num_stages, dtype=np.int64)[:, None] - np.eye(num_stages, dtype=np.int64)[None, :]
    moves = moves.reshape(-1, num_stages)[~np.eye(num_stages, dtype=bool).ravel()]
    for _ in range(MAX_MOVES if len(moves) and np.isfinite(step_s) else 0):
        near = layers + moves
        near = near[((near >= table.fewest) & (near < table.row.shape[1])).all(axis=1)]
        if not len(near):
            break
        near_s = table.steps_s(near)
        if near_s.min() >= step_s:
            break
        layers, step_s = near[int(near_s.argmin())], float(near_s.min())
    return layers, step_s


def cuts_within(table: StageTable, pace_s: float) -> IntArray | None:
    """All layers by stage of which no stage takes longer than `pace_s`; None where there are too many to list.

    Or where a stage could hold more than was asked about, or fewer.
    """
    # from the right, so that a stage which is faster with more layers is not left out
    time_s = np.minimum.accumulate(table.time_s[:, ::-1], axis=1)[:, ::-1]
    most = (time_s <= pace_s).sum(axis=1) - 1
    surplus = int(most.sum()) - table.num_layers
    if surplus < 0:
        return np.empty((0, len(most)), dtype=np.int64)
    is_edge = (most == table.most) & (table.most < table.num_layers - (len(most) - 1) * table.plan.interleave)
    is_below = (most - surplus < table.fewest) & (table.fewest > table.plan.interleave) & (len(most) > 1)
    if is_edge.any() or is_below.any() or comb(surplus + len(most) - 1, surplus) > MAX_CUTS:
        return None
    taken = np.zeros((1, 0), dtype=np.int64)
    for stage in range(len(most)):
        left = surplus - taken.sum(axis=1)
        few = left if stage == len(most) - 1 else np.zeros_like(left)
        choices = [np.arange(low, high + 1) for low, high in zip(few, left, strict=True)]
        sizes = [len(some) for some in choices]
        taken = np.column_stack([np.repeat(taken, sizes, axis=0), np.concatenate(choices)])
    cuts = most - taken
    return np.asarray(cuts[(cuts >= table.fewest).all(axis=1)])


def _least_pace(table: StageTable) -> IntArray | None:
    time_s = np.maximum.accumulate(table.time_s, axis=1)[None]  # a stage takes no less with more layers
    cut = Cut(
        num_units=np.array([table.num_layers]),
        is_stage=np.ones(time_s.shape[:2], dtype=bool),
        min_units=table.fewest,
    )
    pace_s = least_pace_s(cut, time_s)
    if not np.isfinite(pace_s[0]):
        return None
    num_most = (time_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2)
    return np.asarray(least_sum(cut, time_s, num_most, np.array([True]))[0])


def _even(table: StageTable) -> IntArray | None:
    """The layers of an even cut by stage, where they lie within what was asked about."""
    layers = np.zeros(table.plan.pipeline_parallel, dtype=np.int64)
    for homes, count in zip(table.plan.chunk_stages, layers_per_chunk(table.num_layers, table.plan), strict=True):
        layers[list(homes)] += count
    is_asked = ((layers >= table.fewest) & (layers < table.row.shape[1])).all()
    return layers if is_asked else None


def plan_of(table: StageTable, layers: IntArray) -> Plan:
    """The plan whose stages hold `layers`, each with its fastest recompute."""
    plan, rows = table.plan, table.row[np.arange(len(layers)), layers]
    options = table.options.at(rows)
    policies = tuple(
        RECOMPUTE_POLICIES[policy] if again else "none"
        for policy, again in zip(options.policy, options.num_again, strict=True)
    )
    is_whole = [p == "none" or again == n for p, again, n in zip(policies, options.num_again, layers, strict=True)]
    counts = () if all(is_whole) else tuple(int(again) for again in options.num_again)
    return replace(
        plan,
        recompute=policies if len(set(policies)) > 1 else policies[:1],
        recompute_layers=counts if len(set(counts)) > 1 else counts[:1],
        layers_per_stage=_by_chunk(table, layers),
    )


def _by_chunk(table: StageTable, layers: IntArray) -> tuple[int, ...]:
    """Layers of each chunk, those of a stage as equal as can be; nothing where that is how an even cut lies."""
    left, seen = layers.tolist(), [0] * len(layers)
    chunks = []
    for [stage] in table.plan.chunk_stages:
        num_left = table.plan.interleave - seen[stage]
        chunks.append(-(-left[stage] // num_left))
        left[stage] -= chunks[-1]
        seen[stage] += 1
    found = tuple(chunks)
    even = _even(table)
    is_even = even is not None and bool((even == layers).all())
    return () if is_even else found
