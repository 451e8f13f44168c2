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
from dovetail.step.assembly import StageShapeGroup, by_pipeline, num_hiding_microbatches, tied
from dovetail.step.offload import Offload
from dovetail.step.pipelines import PipelineShape
from dovetail.step.plan_table import PlanContext
from dovetail.step.stage_columns import gradient_sync, held_elements
from dovetail.step.work import cost_of
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray

ROUNDING_TOLERANCE = 1e-12  # sums taken in another order differ by less, and a bound must not be above what it bounds
_NUM_HALVINGS = 40  # of the pace at which a bound meets what it is held against


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupLowerBounds:
    """Lower bounds for plans of one pipeline shape: of their stages for a microbatch, and of what a step adds."""

    context: PlanContext
    group: StageShapeGroup
    block_bounds: BlockLowerBounds
    policies: tuple[int, ...]
    num_microbatches: IntArray
    is_beside: BoolArray
    transfer_s: FloatArray
    sum_s: FloatArray  # of all stages
    tied_s: FloatArray  # between two stages
    grad_sync_s: FloatArray  # of a stage with a full share of the layers
    updated_s: FloatArray  # and what its update takes

    def at(self, places: IntArray) -> GroupLowerBounds:
        """Some of its plans."""
        group = StageShapeGroup(
            rows=self.group.rows[places],
            name=self.group.name,
            num_stages=self.group.num_stages,
            interleave=self.group.interleave,
            num_copies=self.group.num_copies,
            runs=self.group.runs,
        )
        names = ("num_microbatches", "is_beside", "transfer_s", "sum_s", "tied_s", "grad_sync_s", "updated_s")
        columns = {name: getattr(self, name)[places] for name in names}
        return GroupLowerBounds(
            context=self.context, group=group, block_bounds=self.block_bounds, policies=self.policies, **columns
        )

    @property
    def hidden_frac(self) -> FloatArray:
        """Share of the overlapped gradient sync that costs no compute."""
        return np.asarray(
            (1 - self.context.compute_slowdown_frac) * self.context.plans.overlaps("data")[self.group.rows]
        )

    @property
    def per_step_s(self) -> FloatArray:
        """What every step has after its pipeline, even if all overlap that is possible happens."""
        return np.asarray(self.tied_s + (1 - self.hidden_frac) * self.grad_sync_s + self.updated_s)

    @property
    def shape(self) -> PipelineShape:
        return PipelineShape(
            num_stages=self.group.num_stages,
            num_microbatches=self.num_microbatches,
            interleave=self.group.interleave,
        )

    @property
    def variant(self) -> IntArray:
        return self.context.table.comm_variant_of[self.group.rows]

    def layer_s(self, block: int) -> FloatArray:
        """One layer of this kind, plans by policies."""
        return np.asarray(self.block_bounds.time_s[block][self.variant[:, None], np.array(self.policies)])

    @property
    def fixed_s(self) -> FloatArray:
        return fixed_lower_bounds_s(self.context, self.group, self.block_bounds, self.policies)


def _entered_s(context: PlanContext, group: StageShapeGroup, block_bounds: BlockLowerBounds) -> FloatArray:
    """What each stage takes beside its blocks: transfers that are paid for, less what entering it may take."""
    transfer_s, is_beside = (
        context.transfer_s[context.transfer_of[group.rows]],
        context.plans.overlaps("pipeline")[group.rows],
    )
    paid_s = np.where(is_beside, 0.0, 2 * group.num_copies * group.interleave * transfer_s)
    return np.asarray(paid_s - block_bounds.call_s[context.table.comm_variant_of[group.rows]])


def fixed_lower_bounds_s(
    context: PlanContext, group: StageShapeGroup, block_bounds: BlockLowerBounds, policies: tuple[int, ...]
) -> FloatArray:
    """What stages take at least beside their layers, plans by stages: embedding, head and transfers."""
    variant = context.table.comm_variant_of[group.rows]
    fixed_s = np.repeat(_entered_s(context, group, block_bounds)[:, None], group.num_stages, axis=1)
    for run in group.runs:
        stages = slice(run.first_stage, run.first_stage + run.num_stages)
        for span in run.spans:
            if not context.graph.blocks[span.block].is_layer:
                fixed_s[:, stages] += span.count * block_bounds.least_s(span.block, policies)[variant][:, None]
    return fixed_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """By plan: seconds that no step is below, and seconds that every step has beside its pipeline."""

    step_s: FloatArray
    per_step_s: FloatArray


def step_bounds(context: PlanContext, policies: tuple[int, ...], worst_s: float) -> Bounds:
    """For each of the plans, of which `recompute` is left open, a time below which no layers and recompute take it.

    First from the sum over stages alone. Where that is below `worst_s`, also from the least pace at which the layers,
    in whole numbers and with the recompute that memory forces, fit on the stages; infinite where they do not, or where
    that is known to be no less than `worst_s`.
    """
    step_s, per_step_s = np.empty(len(context.plans)), np.empty(len(context.plans))
    block_bounds = block_lower_bounds(context.graph, context.table)
    tables: list[MemoryTable] = []  # one, once it is asked for
    for group in by_pipeline(context.graph, context.plans):
        bounds = group_lower_bounds(context, group, block_bounds, policies)
        first_s = _bound_s(bounds, np.zeros(len(group.rows)))
        close = np.flatnonzero(first_s < worst_s)
        if len(close):
            if not tables:
                tables.append(memory_table(context.sharded, context.precision))
            close_bounds = bounds.at(close)
            first_s[close] = np.maximum(
                first_s[close], _bound_s(close_bounds, _paces_s(close_bounds, tables[0], worst_s))
            )
        step_s[group.rows], per_step_s[group.rows] = first_s, bounds.per_step_s
    return Bounds(step_s=step_s * (1 - ROUNDING_TOLERANCE), per_step_s=per_step_s * (1 - ROUNDING_TOLERANCE))


def pipeline_bounds_s(context: PlanContext, policies: tuple[int, ...]) -> FloatArray:
    """For each of the plans a time below which no layers and recompute take its pipeline: by the sum over stages alone.

    What is exchanged and updated once a step is left out, so it costs a fraction of `step_bounds`.
    """
    found_s = np.empty(len(context.plans))
    block_bounds = block_lower_bounds(context.graph, context.table)
    for group in by_pipeline(context.graph, context.plans):
        sum_s, lag_s = _sum_s(context, group, block_bounds, policies), _lag_s(context, group)
        shape = PipelineShape(
            num_stages=group.num_stages,
            num_microbatches=context.num_microbatches[group.rows],
            interleave=group.interleave,
        )
        found_s[group.rows] = pipeline_lower_bound_s(group.name, sum_s, sum_s / group.num_stages, lag_s, shape)
    return np.asarray(found_s * (1 - ROUNDING_TOLERANCE))


def _sum_s(
    context: PlanContext, group: StageShapeGroup, block_bounds: BlockLowerBounds, policies: tuple[int, ...]
) -> FloatArray:
    """What one microbatch takes on all stages together, both ways, at least."""
    counts = np.zeros(len(context.graph.blocks))
    for run in group.runs:
        for span in run.spans:
            counts[span.block] += run.num_stages * span.count
    blocks_s = np.sum([count * block_bounds.least_s(block, policies) for block, count in enumerate(counts)], axis=0)
    variant = context.table.comm_variant_of[group.rows]
    return np.asarray(group.num_stages * _entered_s(context, group, block_bounds) + blocks_s[variant])


def _lag_s(context: PlanContext, group: StageShapeGroup) -> FloatArray:
    """Transfers between stages that are beside compute."""
    transfer_s = context.transfer_s[context.transfer_of[group.rows]]
    return np.where(context.plans.overlaps("pipeline")[group.rows], transfer_s, 0.0)


def layer_blocks(graph: Graph) -> list[int]:
    return [index for index, block in enumerate(graph.blocks) if block.is_layer]


def group_lower_bounds(
    context: PlanContext, group: StageShapeGroup, block_bounds: BlockLowerBounds, policies: tuple[int, ...]
) -> GroupLowerBounds:
    transfer_s, is_beside = (
        context.transfer_s[context.transfer_of[group.rows]],
        context.plans.overlaps("pipeline")[group.rows],
    )
    num_microbatches = context.num_microbatches[group.rows]
    # nothing is said of two copies of a chunk, whose sum depends on the layers they hold
    tied_s = tied(context, group)[1] if group.num_copies == 1 else np.zeros(len(group.rows))
    return GroupLowerBounds(
        context=context,
        group=group,
        block_bounds=block_bounds,
        policies=policies,
        num_microbatches=num_microbatches,
        is_beside=is_beside,
        transfer_s=transfer_s,
        sum_s=_sum_s(context, group, block_bounds, policies),
        tied_s=tied_s,
        grad_sync_s=_grad_sync_s(context, group),
        updated_s=_updated_s(context, group),
    )


def _paces_s(bounds: GroupLowerBounds, table: MemoryTable, worst_s: float) -> FloatArray:
    """The least pace of the group's layers, or more than leaves room below `worst_s`."""
    context, group, kinds = bounds.context, bounds.group, layer_blocks(bounds.context.graph)
    if len(kinds) == 1:
        return least_paces_s(context, table, group.rows, bounds.layer_s(kinds[0]), bounds.fixed_s, bounds.policies)
    if group.num_copies > 1:
        return np.zeros(len(group.rows))
    mixes = LayerMixLowerBounds(
        rows=group.rows,
        layer_s=tuple(bounds.layer_s(kind) for kind in kinds),
        fixed_s=bounds.fixed_s,
        sum_s=bounds.sum_s,
        limit_s=_meeting_pace_s(bounds, worst_s),
    )
    return least_mix_paces_s(context, table, mixes, bounds.policies)


def _meeting_pace_s(bounds: GroupLowerBounds, worst_s: float) -> FloatArray:
    """A pace at which no step is below `worst_s`, close to the least such; infinite where that is."""
    num_passes = bounds.num_microbatches / bounds.group.num_copies
    high_s = worst_s / num_passes
    if not np.isfinite(worst_s):
        return high_s
    lower_bound_s = np.zeros_like(high_s)
    for _ in range(_NUM_HALVINGS):
        middle_s = (lower_bound_s + high_s) / 2
        is_enough = _bound_s(bounds, middle_s) >= worst_s
        lower_bound_s, high_s = np.where(is_enough, lower_bound_s, middle_s), np.where(is_enough, middle_s, high_s)
    return high_s


def _bound_s(bounds: GroupLowerBounds, pace_s: FloatArray) -> FloatArray:
    """Of a step whose slowest stage takes `pace_s` a microbatch or more.

    No more of the gradient sync hides than a stage takes. More would hide behind a slower one; where that makes the
    pipeline longer by as much, the bound still holds.
    """
    group, shape = bounds.group, bounds.shape
    fits = np.isfinite(pace_s)
    pace_s = np.where(fits, np.maximum(pace_s, bounds.sum_s / shape.num_stages), 0.0)
    lag_s = np.where(bounds.is_beside, bounds.transfer_s, 0.0)
    lower_bound_s = pipeline_lower_bound_s(group.name, bounds.sum_s, pace_s, lag_s, shape)
    hiding = num_hiding_microbatches(group, bounds.num_microbatches)
    is_longer = pace_slope(group.name, shape) >= bounds.hidden_frac * hiding
    # interleaved chunks leave a step as long as it is until the pace is what all of it comes to for a microbatch
    slow_s = (
        np.maximum(pace_s, lower_bound_s * group.num_copies / shape.num_microbatches)
        if group.interleave > 1
        else pace_s
    )
    room_s = np.where(is_longer, hiding * slow_s, np.inf)
    exposed_s = bounds.grad_sync_s - bounds.hidden_frac * np.minimum(bounds.grad_sync_s, room_s)
    return np.where(fits, lower_bound_s + bounds.tied_s + exposed_s + bounds.updated_s, np.inf)


def _grad_sync_s(context: PlanContext, group: StageShapeGroup) -> FloatArray:
    first, grad_sync_of = distinct(context.table.grad_sync_variant_of[group.rows])
    rows = group.rows[first]
    held = held_elements((_share(context.graph, group),), context.graph, context.table, rows)
    link_frac = context.cluster.chip.calibration.link_frac
    sync = gradient_sync(
        held, context.plans.zero_stage[rows], context.places.at(rows), context.precision, link_frac, "least"
    )
    return np.asarray((sync.reduce_s + sync.gather_s)[grad_sync_of, 0])


def _updated_s(context: PlanContext, group: StageShapeGroup) -> FloatArray:
    updates, run = context.table.updates, _share(context.graph, group)
    if isinstance(context.offload, Offload) and context.plans.offload_optimizer:
        return context.offload.update_s((run,), group.rows)[:, 0]
    total_s = sum(span.count * cost_of(updates[span.block]).compute_s for span in run.spans)
    return np.asarray(np.asarray(total_s)[context.table.update_variant_of[group.rows]])


def _share(graph: Graph, group: StageShapeGroup) -> StageGroup:
    """Layers of which some stage holds as many, or of several kinds the mean."""
    kinds = layer_blocks(graph)
    num_layers = {index: group.num_copies * graph.blocks[index].repeat for index in kinds}
    if len(kinds) == 1:
        parts = tuple(LayerSpan(block=index, count=-(-num // group.num_stages)) for index, num in num_layers.items())
    else:
        parts = tuple(LayerSpan(block=b, count=num / group.num_stages) for b, num in num_layers.items())  # type: ignore[arg-type]
    return StageGroup(first_stage=1, num_stages=1, spans=parts)
