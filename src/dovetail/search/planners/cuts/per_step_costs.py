"""Gradient sync and update of each cut of one plan, by what its stages hold."""

from __future__ import annotations

import numpy as np

from dovetail.parallel.layout import LayerSpan, StageGroup, stage_counts
from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.search.planners.cuts.stage_options import NONE, recomputed
from dovetail.step.assembly import Assembly, by_stages, stage_shape_group
from dovetail.step.plan_table import PlanContext
from dovetail.workload.graph import FloatArray, Graph, IntArray


def per_step_of_cuts_s(context: PlanContext, row: int, stages: PlanStages, cuts: IntArray) -> FloatArray:
    """Seconds that a step of each of `cuts`, rows of options by stage, has beside its pipeline at least.

    Exact but for gradients on their way to a host that updates. `row` is that of the plan in `context`.
    """
    used, place = np.unique(cuts, return_inverse=True)
    used = used[np.argsort(stages.options.stage[used], kind="stable")]  # so that the last run has the head
    place = np.argsort(np.argsort(stages.options.stage[np.unique(cuts)], kind="stable"))[place].reshape(cuts.shape)
    outer = stage_counts(context.graph, stages.plan)
    runs = tuple(_run(context.graph, stages, int(option), outer) for option in used)
    [(_, columns)] = by_stages(context, [group := stage_shape_group(context.plans, np.array([row]), runs)])
    assembly = Assembly(context, group, columns)
    update_s = columns.update_s[columns.update_of[0]]
    exposed_s, update_s = assembly.exposed_in_s(place).max(axis=1), update_s[place].max(axis=1)
    return np.asarray(assembly.tied_s[0] + exposed_s + update_s)


def _run(graph: Graph, stages: PlanStages, option: int, outer: IntArray) -> StageGroup:
    """A stage that is this option; `outer` has the blocks that are no layers, blocks by stages."""
    options = stages.options
    stage, at = int(options.stage[option]), slice(option, option + 1)
    policy = int(options.policy[option]) if options.num_again[option] else NONE
    [recomputing] = recomputed(graph, options.counts[at], options.start[at], options.num_again[at]).tolist()
    held = zip(options.counts[option].tolist(), recomputing, strict=True)
    parts = []
    for block, kind in enumerate(graph.blocks):
        count, again = next(held) if kind.is_layer else (int(outer[block, stage]),) * 2
        split = ((again, policy), (count - again, NONE))
        parts += [
            LayerSpan(block=block, count=num_layers, policy=layer_policy)
            for num_layers, layer_policy in split
            if num_layers
        ]
    return StageGroup(first_stage=stage, num_stages=1, spans=tuple(parts))
