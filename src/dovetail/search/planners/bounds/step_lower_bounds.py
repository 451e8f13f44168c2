"""A lower bound on the step time of every plan with given degrees, whatever its layers by stage and its recompute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.columns import distinct
from dovetail.parallel.layout import LayerSpan, StageGroup
from dovetail.parallel.memory import MemoryTable, memory_table
from dovetail.search.planners.bounds.block_lower_bounds import BlockLowerBounds, block_lower_bounds
from dovetail.search.planners.bounds.mix_paces import LayerMixLowerBounds, least_mix_paces_s
from dovetail.search.planners.bounds.pipeline_lower_bounds import pace_slope, pipeline_lower_bound_s
from dovetail.search.planners.bounds.stage_paces import least_paces_s
from dovetail.step.assembly import StageShapeGroup, by_pipeline, num_hiding, tied
from dovetail.step.offload import Offload
from dovetail.step.pipelines import PipelineShape
from dovetail.step.plan_table import PlanContext
from dovetail.step.stage_columns import exchange, held_elements
from dovetail.step.work import cost_of
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray

ROUNDING_TOLERANCE = 1e-12  # sums taken in another order differ by less, and a bound must not be above what it bounds
_NUM_HALVINGS = 40  # of the pace at which a bound meets what it is held against


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupLowerBounds:
    """Plans of one pipeline: what their stages take at least for a microbatch, and what a step adds."""

    every: PlanContext
    same: StageShapeGroup
    lows: BlockLowerBounds
    policies: tuple[int, ...]
    num_microbatches: IntArray
    is_beside: BoolArray
    transfer_s: FloatArray
    sum_s: FloatArray  # of all stages
    tied_s: FloatArray  # between two stages
    exchanged_s: FloatArray  # what a stage with a full share of the layers exchanges once a step
    updated_s: FloatArray  # and what its update takes

    def at(self, places: IntArray) -> GroupLowerBounds:
        """Some of its plans."""
        same = StageShapeGroup(
            rows=self.same.rows[places],
            name=self.same.name,
            num_stages=self.same.num_stages,
            interleave=self.same.interleave,
            num_copies=self.same.num_copies,
            runs=self.same.runs,
        )
        names = ("num_microbatches", "is_beside", "transfer_s", "sum_s", "tied_s", "exchanged_s", "updated_s")
        columns = {name: getattr(self, name)[places] for name in names}
        return GroupLowerBounds(every=self.every, same=same, lows=self.lows, policies=self.policies, **columns)

    @property
    def hidden_frac(self) -> FloatArray:
        """How much of what hides is not paid for."""
        return np.asarray((1 - self.every.compute_slowdown_frac) * self.every.plans.overlaps("data")[self.same.rows])

    @property
    def per_step_s(self) -> FloatArray:
        """What every step has beside its pipeline, even if everything that may hide does."""
        return np.asarray(self.tied_s + (1 - self.hidden_frac) * self.exchanged_s + self.updated_s)

    @property
    def shape(self) -> PipelineShape:
        return PipelineShape(
            num_stages=self.same.num_stages,
            num_microbatches=self.num_microbatches,
            interleave=self.same.interleave,
        )

    @property
    def sender(self) -> IntArray:
        return self.every.table.comm_variant_of[self.same.rows]

    def layer_s(self, block: int) -> FloatArray:
        """One layer of this kind, plans by policies."""
        return np.asarray(self.lows.time_s[block][self.sender[:, None], np.array(self.policies)])

    @property
    def fixed_s(self) -> FloatArray:
        return fixed_lows_s(self.every, self.same, self.lows, self.policies)


def _entered_s(every: PlanContext, same: StageShapeGroup, lows: BlockLowerBounds) -> FloatArray:
    """What each stage takes beside its blocks: transfers that are paid for, less what entering it may take."""
    transfer_s, is_beside = every.transfer_s[every.transfer_of[same.rows]], every.plans.overlaps("pipeline")[same.rows]
    paid_s = np.where(is_beside, 0.0, 2 * same.num_copies * same.interleave * transfer_s)
    return np.asarray(paid_s - lows.call_s[every.table.comm_variant_of[same.rows]])


def fixed_lows_s(
    every: PlanContext, same: StageShapeGroup, lows: BlockLowerBounds, policies: tuple[int, ...]
) -> FloatArray:
    """What stages take at least beside their layers, plans by stages: embedding, head and transfers."""
    sender = every.table.comm_variant_of[same.rows]
    fixed_s = np.repeat(_entered_s(every, same, lows)[:, None], same.num_stages, axis=1)
    for run in same.runs:
        stages = slice(run.first_stage, run.first_stage + run.num_stages)
        for span in run.spans:
            if not every.graph.blocks[span.block].is_layer:
                fixed_s[:, stages] += span.count * lows.least_s(span.block, policies)[sender][:, None]
    return fixed_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """By plan: seconds that no step is below, and seconds that every step has beside its pipeline."""

    step_s: FloatArray
    per_step_s: FloatArray


def step_bounds(every: PlanContext, policies: tuple[int, ...], worst_s: float) -> Bounds:
    """For each of the plans, of which `recompute` is left open, a time below which no layers and recompute take it.

    First from the sum over stages alone. Where that is below `worst_s`, also from the least pace at which the layers,
    in whole numbers and with the recompute that memory forces, fit on the stages; infinite where they do not, or where
    that is known to be no less than `worst_s`.
    """
    step_s, per_step_s = np.empty(len(every.plans)), np.empty(len(every.plans))
    lows = block_lower_bounds(every.graph, every.table)
    tables: list[MemoryTable] = []  # one, once it is asked for
    for same in by_pipeline(every.graph, every.plans):
        group = group_lower_bounds(every, same, lows, policies)
        first_s = _bound_s(group, np.zeros(len(same.rows)))
        close = np.flatnonzero(first_s < worst_s)
        if len(close):
            if not tables:
                tables.append(memory_table(every.sharded, every.precision))
            some = group.at(close)
            first_s[close] = np.maximum(first_s[close], _bound_s(some, _paces_s(some, tables[0], worst_s)))
        step_s[same.rows], per_step_s[same.rows] = first_s, group.per_step_s
    return Bounds(step_s=step_s * (1 - ROUNDING_TOLERANCE), per_step_s=per_step_s * (1 - ROUNDING_TOLERANCE))


def layer_blocks(graph: Graph) -> list[int]:
    return [index for index, block in enumerate(graph.blocks) if block.is_layer]


def group_lower_bounds(
    every: PlanContext, same: StageShapeGroup, lows: BlockLowerBounds, policies: tuple[int, ...]
) -> GroupLowerBounds:
    graph, sender = every.graph, every.table.comm_variant_of[same.rows]
    transfer_s, is_beside = every.transfer_s[every.transfer_of[same.rows]], every.plans.overlaps("pipeline")[same.rows]
    num_microbatches = every.num_microbatches[same.rows]
    counts = np.zeros(len(graph.blocks))
    for run in same.runs:
        for span in run.spans:
            counts[span.block] += run.num_stages * span.count
    blocks_s = np.sum([count * lows.least_s(block, policies) for block, count in enumerate(counts)], axis=0)
    # of two copies, which exchange more by the layers they hold, nothing is said
    tied_s = tied(every, same)[1] if same.num_copies == 1 else np.zeros(len(same.rows))
    return GroupLowerBounds(
        every=every,
        same=same,
        lows=lows,
        policies=policies,
        num_microbatches=num_microbatches,
        is_beside=is_beside,
        transfer_s=transfer_s,
        sum_s=np.asarray(same.num_stages * _entered_s(every, same, lows) + blocks_s[sender]),
        tied_s=tied_s,
        exchanged_s=_exchanged_s(every, same),
        updated_s=_updated_s(every, same),
    )


def _paces_s(group: GroupLowerBounds, table: MemoryTable, worst_s: float) -> FloatArray:
    """The least pace of the group's layers, or more than leaves room below `worst_s`."""
    every, same, kinds = group.every, group.same, layer_blocks(group.every.graph)
    if len(kinds) == 1:
        return least_paces_s(every, table, same.rows, group.layer_s(kinds[0]), group.fixed_s, group.policies)
    if same.num_copies > 1:
        return np.zeros(len(same.rows))
    mixes = LayerMixLowerBounds(
        rows=same.rows,
        layer_s=tuple(group.layer_s(kind) for kind in kinds),
        fixed_s=group.fixed_s,
        sum_s=group.sum_s,
        limit_s=_meeting_pace_s(group, worst_s),
    )
    return least_mix_paces_s(every, table, mixes, group.policies)


def _meeting_pace_s(group: GroupLowerBounds, worst_s: float) -> FloatArray:
    """A pace at which no step is below `worst_s`, close to the least such; infinite where that is."""
    num_passes = group.num_microbatches / group.same.num_copies
    high_s = worst_s / num_passes
    if not np.isfinite(worst_s):
        return high_s
    lower_bound_s = np.zeros_like(high_s)
    for _ in range(_NUM_HALVINGS):
        middle_s = (lower_bound_s + high_s) / 2
        is_enough = _bound_s(group, middle_s) >= worst_s
        lower_bound_s, high_s = np.where(is_enough, lower_bound_s, middle_s), np.where(is_enough, middle_s, high_s)
    return high_s


def _bound_s(group: GroupLowerBounds, pace_s: FloatArray) -> FloatArray:
    """Of a step whose slowest stage takes `pace_s` a microbatch or more.

    Of exchanges no more hides than a stage takes. More would hide behind a slower one; where that makes the pipeline
    longer by as much, the bound still holds.
    """
    same, shape = group.same, group.shape
    fits = np.isfinite(pace_s)
    pace_s = np.where(fits, np.maximum(pace_s, group.sum_s / shape.num_stages), 0.0)
    lag_s = np.where(group.is_beside, group.transfer_s, 0.0)
    lower_bound_s = pipeline_lower_bound_s(same.name, group.sum_s, pace_s, lag_s, shape)
    hiding = num_hiding(same, group.num_microbatches)
    is_longer = pace_slope(same.name, shape) >= group.hidden_frac * hiding
    # interleaved chunks leave a step as long as it is until the pace is what all of it comes to for a microbatch
    slow_s = (
        np.maximum(pace_s, lower_bound_s * same.num_copies / shape.num_microbatches) if same.interleave > 1 else pace_s
    )
    room_s = np.where(is_longer, hiding * slow_s, np.inf)
    exposed_s = group.exchanged_s - group.hidden_frac * np.minimum(group.exchanged_s, room_s)
    return np.where(fits, lower_bound_s + group.tied_s + exposed_s + group.updated_s, np.inf)


def _exchanged_s(every: PlanContext, same: StageShapeGroup) -> FloatArray:
    first, exchanger = distinct(every.table.grad_sync_variant_of[same.rows])
    rows = same.rows[first]
    held = held_elements((_share(every.graph, same),), every.graph, every.table, rows)
    link_frac = every.cluster.chip.calibration.link_frac
    once = exchange(held, every.plans.zero_stage[rows], every.places.at(rows), every.precision, link_frac)
    return np.asarray((once.reduce_s + once.gather_s)[exchanger, 0])


def _updated_s(every: PlanContext, same: StageShapeGroup) -> FloatArray:
    updates, run = every.table.updates, _share(every.graph, same)
    if isinstance(every.offload, Offload) and every.plans.offload_optimizer:
        return every.offload.update_s((run,), same.rows)[:, 0]
    total_s = sum(span.count * cost_of(updates[span.block]).compute_s for span in run.spans)
    return np.asarray(np.asarray(total_s)[every.table.update_variant_of[same.rows]])


def _share(graph: Graph, same: StageShapeGroup) -> StageGroup:
    """Layers of which some stage holds as many, or of several kinds the mean."""
    kinds = layer_blocks(graph)
    num_layers = {index: same.num_copies * graph.blocks[index].repeat for index in kinds}
    if len(kinds) == 1:
        parts = tuple(LayerSpan(block=index, count=-(-num // same.num_stages)) for index, num in num_layers.items())
    else:
        parts = tuple(LayerSpan(block=b, count=num / same.num_stages) for b, num in num_layers.items())  # type: ignore[arg-type]
    return StageGroup(first_stage=1, num_stages=1, spans=parts)
