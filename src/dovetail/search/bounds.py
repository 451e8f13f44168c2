"""A lower bound on the step time of every plan with given degrees, whatever its layers by stage and its recompute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.plan.layout import Part, Run
from dovetail.plan.memory_table import memory_table
from dovetail.schedule.assembly import Alike, Assembly, Shared, by_pipeline, by_stages
from dovetail.schedule.pipelines import PipelineShape
from dovetail.schedule.sync import exchange, held_elements
from dovetail.schedule.work import HELD_FRAC
from dovetail.schedule.work_columns import cost_of
from dovetail.search.block_lows import BlockLows, block_lows
from dovetail.search.pipeline_lows import pace_slope, pipeline_low_s
from dovetail.search.stage_paces import least_paces_s
from dovetail.workload.graph import FloatArray, Graph

ROUNDING_TOLERANCE = 1e-12  # sums taken in another order differ by less, and a bound must not be above what it bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupLows:
    """Plans of one pipeline: what their stages take at least for a microbatch, and what a step adds."""

    made: Assembly
    layer_s: FloatArray  # plans by policies, nothing where layers are of several kinds
    fixed_s: FloatArray  # plans by stages: embedding, head and transfers
    sum_s: FloatArray  # plans
    exchanged_s: FloatArray  # what a stage with a full share of the layers exchanges once a step
    updated_s: FloatArray  # and what its update takes

    @property
    def tied_s(self) -> FloatArray:
        """Between two stages; of two copies, which exchange more by the layers they hold, nothing is said."""
        is_once = self.made.same.num_copies == 1
        return np.asarray(self.made.tied_s if is_once else np.zeros_like(self.made.tied_s))

    @property
    def hidden_frac(self) -> FloatArray:
        """How much of what hides is not paid for."""
        made = self.made
        return np.asarray((1 - HELD_FRAC) * made.shared.plans.overlaps("data")[made.same.rows])

    @property
    def paid_for_s(self) -> FloatArray:
        """What is exposed even if everything that may hide does."""
        return np.asarray((1 - self.hidden_frac) * self.exchanged_s)

    @property
    def shape(self) -> PipelineShape:
        same = self.made.same
        return PipelineShape(
            num_stages=same.num_stages, num_microbatches=self.made.num_microbatches, interleave=same.interleave
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """By plan: seconds that no step is below, and seconds that every step has beside its pipeline."""

    step_s: FloatArray
    once_s: FloatArray


def step_bounds(every: Shared, policies: tuple[int, ...], worst_s: float) -> Bounds:
    """For each of the plans, of which `recompute` is left open, a time below which no layers and recompute take it.

    First from the sum over stages alone. Where that is below `worst_s`, and layers are all alike, also from the least
    pace at which the layers, in whole numbers and with the recompute that memory forces, fit on the stages; infinite
    where they do not.
    """
    step_s, once_s = np.empty(len(every.plans)), np.empty(len(every.plans))
    lows = block_lows(every.graph, every.table)
    table = memory_table(every.graph, every.plans, every.table.cuts, every.precision)
    for same, columns in by_stages(every, list(by_pipeline(every.graph, every.plans))):
        group = _group_lows(Assembly(every, same, columns), lows, policies)
        first_s = _bound_s(group, np.zeros(len(same.rows)))
        close = np.flatnonzero(first_s < worst_s)
        if len(close) and group.layer_s.size:
            pace_s = np.zeros(len(same.rows))
            some = same.rows[close], group.layer_s[close], group.fixed_s[close]
            pace_s[close] = least_paces_s(every, table, *some, policies)
            first_s = np.maximum(first_s, _bound_s(group, pace_s))
        step_s[same.rows], once_s[same.rows] = first_s, group.tied_s + group.paid_for_s + group.updated_s
    return Bounds(step_s=step_s * (1 - ROUNDING_TOLERANCE), once_s=once_s * (1 - ROUNDING_TOLERANCE))


def layer_blocks(graph: Graph) -> list[int]:
    return [index for index, block in enumerate(graph.blocks) if block.is_layer]


def _group_lows(made: Assembly, lows: BlockLows, policies: tuple[int, ...]) -> GroupLows:
    every, same = made.shared, made.same
    graph, sender = every.graph, every.table.sender_of[same.rows]
    allowed = np.array(policies)
    times_s = [low_s[sender[:, None], allowed] for low_s in lows.time_s]
    paid_s = np.where(made.is_beside, 0.0, 2 * same.num_copies * same.interleave * made.transfer_s)
    fixed_s = np.repeat((paid_s - lows.call_s[sender])[:, None], same.num_stages, axis=1)
    for run in same.runs:
        stages = slice(run.first_stage, run.first_stage + run.num_stages)
        for part in run.parts:
            if not graph.blocks[part.block].is_layer:
                fixed_s[:, stages] += part.count * times_s[part.block].min(axis=1)[:, None]
    kinds = layer_blocks(graph)
    layers_s = sum(graph.blocks[index].repeat * times_s[index].min(axis=1) for index in kinds)
    return GroupLows(
        made=made,
        layer_s=times_s[kinds[0]] if len(kinds) == 1 else np.empty((len(sender), 0)),
        fixed_s=fixed_s,
        sum_s=np.asarray(fixed_s.sum(axis=1) + same.num_copies * layers_s),
        exchanged_s=_exchanged_s(made),
        updated_s=_updated_s(made),
    )


def _bound_s(group: GroupLows, pace_s: FloatArray) -> FloatArray:
    """Of a step whose slowest stage takes `pace_s` a microbatch or more.

    Of exchanges no more hides than a stage takes. More would hide behind a slower one; where that makes the pipeline
    longer by as much, the bound still holds.
    """
    made, shape = group.made, group.shape
    fits = np.isfinite(pace_s)
    pace_s = np.where(fits, np.maximum(pace_s, group.sum_s / shape.num_stages), 0.0)
    lag_s = np.where(made.is_beside, made.transfer_s, 0.0)
    low_s = pipeline_low_s(made.same.name, group.sum_s, pace_s, lag_s, shape)
    is_longer = pace_slope(made.same.name, shape) >= group.hidden_frac * made.num_hiding
    room_s = np.where(is_longer, made.num_hiding * pace_s, np.inf)
    exposed_s = group.exchanged_s - group.hidden_frac * np.minimum(group.exchanged_s, room_s)
    return np.where(fits, low_s + group.tied_s + exposed_s + group.updated_s, np.inf)


def _exchanged_s(made: Assembly) -> FloatArray:
    every, rows = made.shared, made.same.rows
    held = held_elements((_share(every.graph, made.same),), every.graph, every.table, rows)
    link_frac = every.cluster.chip.calibration.link_frac
    once = exchange(held, every.plans.zero_stage[rows], every.places.at(rows), every.precision, link_frac)
    return np.asarray((once.reduce_s + once.gather_s)[:, 0])


def _updated_s(made: Assembly) -> FloatArray:
    every, updates = made.shared, made.shared.table.updates
    updater = every.table.updater_of[made.same.rows]
    run = _share(every.graph, made.same)
    return np.asarray(sum(part.count * cost_of(updates[part.block]).compute_s[updater] for part in run.parts))


def _share(graph: Graph, same: Alike) -> Run:
    """Layers of which some stage holds as many, or of several kinds the mean."""
    kinds = layer_blocks(graph)
    num_layers = {index: same.num_copies * graph.blocks[index].repeat for index in kinds}
    if len(kinds) == 1:
        parts = tuple(Part(block=index, count=-(-num // same.num_stages)) for index, num in num_layers.items())
    else:
        parts = tuple(Part(block=b, count=num / same.num_stages) for b, num in num_layers.items())  # type: ignore[arg-type]
    return Run(first_stage=1, num_stages=1, parts=parts)
