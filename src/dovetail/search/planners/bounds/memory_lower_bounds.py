"""Base plans that no number of layers by stage and no recompute makes fit: known before anything is timed."""

from __future__ import annotations

import numpy as np

from dovetail.columns import distinct
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.memory import MemoryTable, memory_table, room_bytes
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.sharding import shard_plans
from dovetail.search.planners.bounds.stage_paces import ROOM_TOLERANCE, state_bytes
from dovetail.step.pipelines import PipelineShape, pipelines, schedule_name
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

_MATTERS = ("pipeline_parallel", "interleave", "schedule", "zero_stage", "data_parallel")  # beside the cut


def may_fit(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision, policies: tuple[int, ...]) -> BoolArray:
    """False where memory cannot hold the layers of one kind, whatever else is held.

    A stage holds as many as their weights, states and the least that a policy keeps of them leave room for, counted
    as in `stage_paces`; all stages together must hold all.
    """
    sharded = shard_plans(graph, plans)
    first, layout_of = distinct(*(getattr(plans, name) for name in _MATTERS), sharded.cuts.of_plan)
    table = memory_table(sharded.at(first), precision)
    distinct_plans = table.plans
    limit_bytes = np.asarray(room_bytes(distinct_plans, cluster.usable_bytes) * (1 + ROOM_TOLERANCE))
    fits = np.ones(len(distinct_plans), dtype=bool)
    shape_first, shape_of = distinct(
        distinct_plans.pipeline_parallel, distinct_plans.interleave, distinct_plans.schedule
    )
    for index, row in enumerate(shape_first):
        rows = np.flatnonzero(shape_of == index)
        fits[rows] = _fits(graph, distinct_plans.plan(int(row)), table, rows, limit_bytes[rows], policies)
    return np.asarray(fits[layout_of])


def _fits(
    graph: Graph, plan: Plan, table: MemoryTable, rows: IntArray, limit_bytes: FloatArray, policies: tuple[int, ...]
) -> BoolArray:
    shape = PipelineShape(
        num_stages=plan.pipeline_parallel, num_microbatches=table.num_microbatches[rows], interleave=plan.interleave
    )
    pipeline, cut, chosen = pipelines[schedule_name(plan)], table.cuts.of_plan[rows], list(policies)
    in_flight = [pipeline.in_flight(stage, shape) for stage in range(shape.num_stages)]
    fits = np.ones(len(rows), dtype=bool)
    for block, layers in enumerate(graph.blocks):
        if not layers.is_layer:
            continue
        memory, wanted = table.memories[block], plan.num_copies * layers.repeat
        free_bytes = np.maximum(0.0, limit_bytes - memory.passing_bytes[cut][:, chosen].min(axis=1))
        held_bytes, kept_frac = state_bytes(table, block, rows), 1 - table.choices.offload_activations_frac
        kept_bytes = kept_frac * memory.kept_bytes[cut][:, chosen].min(axis=1)
        most = sum(np.minimum(wanted, free_bytes // (held_bytes + flying * kept_bytes)) for flying in in_flight)
        fits &= most >= wanted
    return fits
