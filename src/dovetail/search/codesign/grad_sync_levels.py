"""What the stage that exchanges most does at least once a step, by how many layers stages may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.columns import distinct
from dovetail.parallel.layout import LayerSpan, StageGroup
from dovetail.search.planners.bounds.step_lower_bounds import layer_blocks
from dovetail.step.assembly import StageShapeGroup
from dovetail.step.plan_table import PlanContext
from dovetail.step.stage_columns import ParameterElements, gradient_sync, held_elements
from dovetail.workload.graph import FloatArray, IntArray

Holding = Callable[
    [IntArray], tuple[ParameterElements, ParameterElements]
]  # of some plans: what stages hold, of experts apart


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradSyncLevels:
    """Seconds of the first and the last stage, plans by their layers; and cuts with what their greatest is at least."""

    first_s: FloatArray
    last_s: FloatArray
    most: IntArray  # layers of a cut's fullest stage
    last: IntArray  # and of its last one
    level_s: FloatArray  # plans by cuts

    def least_s(self, most: int, last: range) -> FloatArray:
        """Where no stage holds more than `most` layers, and the last as many as given; infinite where none does."""
        is_meant = (self.most <= most) & (self.last >= last[0]) & (self.last <= last[-1])
        return np.asarray(self.level_s[:, is_meant].min(axis=1, initial=np.inf))


def grad_sync_levels(context: PlanContext, group: StageShapeGroup, fewest: int, most: int) -> GradSyncLevels:
    """Of plans of one pipeline over layers of one kind, whose stages hold `fewest` to `most` of them."""
    first_s, last_s, other_s = _stage_grad_syncs_s(context, group, most)
    first, last = np.meshgrid(*(np.arange(fewest, most + 1),) * 2, indexing="ij")
    left, num_others = context.graph.num_layers - first - last, group.num_stages - 2
    others = -(-left // num_others) if num_others else 0 * left
    is_cut = (left >= fewest * num_others) & ((left == 0) | (num_others > 0)) & (others <= most)
    first, last, others = (column[is_cut] for column in (first, last, others))
    return GradSyncLevels(
        first_s=first_s,
        last_s=last_s,
        most=np.maximum(np.maximum(first, last), others),
        last=last,
        level_s=np.maximum(np.maximum(first_s[:, first], last_s[:, last]), other_s[:, others]),
    )


def _stage_grad_syncs_s(
    context: PlanContext, group: StageShapeGroup, most: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Seconds of the first, the last and any other stage, plans by their layers from none to `most`."""
    [kind] = layer_blocks(context.graph)
    layer = LayerSpan(block=kind, count=1)
    ends = [tuple(span for span in run.spans if span.block != kind) for run in (group.runs[0], group.runs[-1])]
    one_layer = tuple(StageGroup(first_stage=0, num_stages=1, spans=(*parts, layer)) for parts in (*ends, ()))
    counts = np.arange(most + 1) - 1.0

    def stage_s(place: int) -> FloatArray:
        def with_layers(held: ParameterElements) -> ParameterElements:
            parameters, gradients, sparse = (
                column[:, [place]] + counts * column[:, [2]]
                for column in (held.parameters, held.gradients, held.sparse)
            )
            return ParameterElements(parameters=parameters, gradients=gradients, sparse=sparse)

        def holding(rows: IntArray) -> tuple[ParameterElements, ParameterElements]:
            plain, experts = held_elements(one_layer, context.graph, context.table, rows)
            return with_layers(plain), with_layers(experts)

        return _grad_sync_s(context, group, holding)

    return stage_s(0), stage_s(1), stage_s(2)


def run_grad_syncs_s(context: PlanContext, group: StageShapeGroup) -> FloatArray:
    """Seconds of stages as the plans have them, plans by runs."""
    return _grad_sync_s(context, group, lambda rows: held_elements(group.runs, context.graph, context.table, rows))


def _grad_sync_s(context: PlanContext, group: StageShapeGroup, holding: Holding) -> FloatArray:
    """What stages that hold so much exchange once a step, plans by stages."""
    first, grad_sync_of = distinct(context.table.grad_sync_variant_of[group.rows])
    rows = group.rows[first]
    link_frac = context.cluster.chip.calibration.link_frac
    once = gradient_sync(
        holding(rows), context.plans.zero_stage[rows], context.places.at(rows), context.precision, link_frac, "least"
    )
    return np.asarray((once.reduce_s + once.gather_s)[grad_sync_of])
