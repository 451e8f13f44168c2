"""The least pace of stages that hold whole layers and recompute what memory forces them to, from below.

Of what a layer keeps and how long it takes each policy is a point. A stage may mix policies as it likes: the mean of
its layers lies above the lower hull of these points. So a stage of n layers takes no less than n times the hull at what
memory leaves a layer, and of memory only what grows with layers is counted, and what one of them needs in passing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dovetail.parallel.memory import (
    MemoryTable,
    held_bytes,
    optimizer_state_bytes,
    room_bytes,
)
from dovetail.parallel.sharding import Owned
from dovetail.search.planners.least_pace import Cut, least_pace_s
from dovetail.step.pipelines import PipelineShape, pipelines, schedule_name
from dovetail.step.plan_table import PlanContext
from dovetail.workload.graph import FloatArray, IntArray

PLAN_BATCH = 512  # tables of as many plans, stages and layer counts stay small
TABLE_ELEMENTS = 2**22  # style: a count; of plans by stages by layers, where models are deep
ROOM_TOLERANCE = 1e-9  # of memory, so that rounding forces nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Room:
    """By plan, or plan and stage or policy: what memory leaves for layers and what they take of it."""

    free_bytes: FloatArray  # plans by stages
    state_bytes: FloatArray  # of a layer, plans
    in_flight: FloatArray  # plans by stages
    kept_bytes: FloatArray  # of a layer and microbatch, plans by policies


def least_paces_s(
    context: PlanContext,
    table: MemoryTable,
    rows: IntArray,
    layer_s: FloatArray,
    fixed_s: FloatArray,
    policies: tuple[int, ...],
) -> FloatArray:
    """Of the plans in `rows`, which share a pipeline; infinite where no number of layers by stage fits."""
    parts = []
    num_stages = context.plans.plan(int(rows[0])).pipeline_parallel
    at_once = min(PLAN_BATCH, max(1, TABLE_ELEMENTS // (num_stages * context.graph.num_layers)))
    for start in range(0, len(rows), at_once):
        batch = slice(start, start + at_once)
        room = _room(context, table, rows[batch], policies)
        parts.append(_least_paces_s(context, room, rows[batch], layer_s[batch], fixed_s[batch]))
    return np.concatenate(parts)


def stage_times_s(
    context: PlanContext,
    table: MemoryTable,
    rows: IntArray,
    layer_s: FloatArray,
    fixed_s: FloatArray,
    policies: tuple[int, ...],
    most: int,
) -> FloatArray:
    """What stages of the plans in `rows`, which share a pipeline, take at least with 0 to `most` layers.

    Plans by stages by layers; infinite where they cannot fit.
    """
    room = _room(context, table, rows, policies)
    return _table_s(room, _hull_lines(room.kept_bytes, layer_s), fixed_s, most)


def _least_paces_s(
    context: PlanContext, room: _Room, rows: IntArray, layer_s: FloatArray, fixed_s: FloatArray
) -> FloatArray:
    plan = context.plans.plan(int(rows[0]))
    num_layers, num_stages = plan.num_copies * context.graph.num_layers, plan.pipeline_parallel
    least = min(plan.interleave, num_layers // num_stages)
    width = num_layers - (num_stages - 1) * least
    share = -(-num_layers // num_stages)
    looked_at = min(width, share + max(3, share // 3))
    lines = _hull_lines(room.kept_bytes, layer_s)
    cut = Cut(
        num_units=np.full(len(rows), num_layers),
        is_stage=np.ones(fixed_s.shape, dtype=bool),
        min_units=least,
    )
    while True:
        table_s = _table_s(room, lines, fixed_s, looked_at)
        pace_s = least_pace_s(cut, table_s)
        # beyond what is looked at no stage is faster, so a pace below that of the most layers is the least of all
        if looked_at == width or not (table_s[:, :, -1] <= pace_s[:, None]).any():
            return pace_s
        looked_at = min(2 * looked_at, width)


def _room(context: PlanContext, table: MemoryTable, rows: IntArray, policies: tuple[int, ...]) -> _Room:
    graph, plans = context.graph, context.plans.at(rows)
    [layer] = [index for index, block in enumerate(graph.blocks) if block.is_layer]
    plan = plans.plan(0)
    shape = PipelineShape(
        num_stages=plan.pipeline_parallel, num_microbatches=table.num_microbatches[rows], interleave=plan.interleave
    )
    pipeline = pipelines[schedule_name(plan)]
    in_flight = np.stack(
        [np.broadcast_to(pipeline.in_flight(stage, shape), (len(rows),)) for stage in range(shape.num_stages)], axis=1
    )
    memory, cut = table.memories[layer], table.cuts.of_plan[rows]
    limit_bytes = room_bytes(plans, context.cluster.usable_bytes) * (1 + ROOM_TOLERANCE)
    free_bytes = limit_bytes - memory.passing_bytes[cut][:, policies].min(axis=1)
    return _Room(
        free_bytes=np.repeat(free_bytes[:, None], shape.num_stages, axis=1),
        state_bytes=state_bytes(table, layer, rows),
        in_flight=in_flight,
        kept_bytes=(1 - table.choices.offload_activations_frac) * memory.kept_bytes[cut][:, policies],
    )


def state_bytes(table: MemoryTable, block: int, rows: IntArray) -> FloatArray:
    """Weights, optimizer state and standing gradients of one repeat of a block."""
    elements, precision = table.elements[block].at(table.cuts.of_plan[rows]), table.precision
    kept: list[tuple[Owned, float, int]] = [
        (elements.parameters, precision.weight_bytes, 3),
        (elements.gradients, precision.gradient_bytes if precision.has_persistent_gradients else 0.0, 2),
    ]
    chosen, state = table.choices.at(rows), (elements.trained, elements.matrices, elements.factors)
    optimizer_bytes = 0.0 if chosen.offload_optimizer else optimizer_state_bytes(chosen, *state, precision)
    weight_bytes, gradient_bytes = (held_bytes(chosen, *each) for each in kept)
    return np.asarray(weight_bytes + optimizer_bytes + gradient_bytes)


def _hull_lines(kept_bytes: FloatArray, layer_s: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Lines (seconds at no bytes, seconds per byte) below all points; their maximum is the points' lower hull."""
    lines = [(layer_s.min(axis=1), np.zeros(len(layer_s)))]
    for a, b in combinations(range(layer_s.shape[1]), 2):
        apart = kept_bytes[:, b] - kept_bytes[:, a]
        slope = np.where(apart != 0, (layer_s[:, b] - layer_s[:, a]) / np.where(apart != 0, apart, 1.0), 0.0)
        slope = np.minimum(slope, 0.0)
        # touching the points from below: as high as the lowest of them lets it
        start = (layer_s - slope[:, None] * kept_bytes).min(axis=1)
        lines.append((start, slope))
    return lines


def _table_s(room: _Room, lines: list[tuple[FloatArray, FloatArray]], fixed_s: FloatArray, most: int) -> FloatArray:
    """Times of stages with 0 to `most` layers: plans by stages by layers, infinite where they do not fit."""
    layers = np.arange(most + 1.0)
    left_bytes = room.free_bytes[:, :, None] - room.state_bytes[:, None, None] * layers
    room_bytes = left_bytes / room.in_flight[:, :, None]
    table_s = np.zeros(room_bytes.shape)
    for start, slope in lines:
        np.maximum(table_s, start[:, None, None] * layers + slope[:, None, None] * room_bytes, out=table_s)
    fits = room_bytes >= layers * room.kept_bytes.min(axis=1)[:, None, None]
    fits[:, :, 0] = True
    return np.where(fits, fixed_s[:, :, None] + table_s, np.inf)
