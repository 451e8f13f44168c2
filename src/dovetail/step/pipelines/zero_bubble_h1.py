"""ZB-H1: 1F1B with backward split, and weight gradients put off to where a stage would idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dovetail.step.pass_order import PassOrder, Row, forward, input_gradient, pass_order, weight_gradient
from dovetail.step.pipelines import (
    Pipeline,
    PipelineShape,
    StageTimes,
    one_chunk,
    pipelines,
    plan_columns,
    skeleton_pipeline_s,
)
from dovetail.step.pipelines.one_f_one_b import longest_path_s
from dovetail.workload.graph import FloatArray


def order(shape: PipelineShape) -> PassOrder:
    """As 1F1B; stage s does the weight gradient of a microbatch s input gradients later, and the last s at the end.

    Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2, the schedule named ZB-H1.
    """
    return pass_order((_passes(stage, shape) for stage in range(shape.num_stages)), shape.num_stages)


def _passes(stage: int, shape: PipelineShape) -> Iterator[Row]:
    num_microbatches = int(shape.num_microbatches)
    ahead = shape.num_stages - 1 - stage
    for i in range(num_microbatches + ahead + stage):
        if i < num_microbatches:
            yield forward(stage, i)
        if 0 <= i - ahead < num_microbatches:
            yield input_gradient(stage, i - ahead)
        if 0 <= i - ahead - stage < num_microbatches:
            yield weight_gradient(stage, i - ahead - stage)


def pipeline_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """For equal stages and f >= w, m (f + b + w) + (p - 1)(f + b - w): b gives inputs' gradients, w weights'. Exact.

    For f < w the first stage's wait is longer, m (f + b + w) + (p - 1) b, exact too. Otherwise the longest path
    through first and last passes, or up and down between two stages as in 1F1B: there a weight gradient counts at the
    stage that turns round to a new microbatch. Never above the played-out schedule;
    for equal stages short of it by 0.24 % at most with transfers of up to 3 s and passes of 0.1 s to 10 s.
    Short of it at most and in the mean, each of 1,900 random pipelines of 2 to 9 stages within 30 % of the mean:
    3.2 % and 0.03 % with transfers to 5 % of a pass, 4.1 % and 0.09 % to 20 %, 3.2 % and 0.17 % to 50 %; the worst
    have fewer microbatches than stages.
    Source: Qi et al., ICLR 2024, table 2, for equal stages.
    """
    columns = plan_columns(times, shape)
    turned_s = longest_path_s(replace(columns, backward_s=columns.backward_s - columns.weight_s), columns.weight_s)
    return np.maximum(skeleton_pipeline_s("zb-h1", times, shape), turned_s)


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """As many as there are stages, on each: those of 1F1B, and those whose weight gradient is put off."""
    del stage
    return np.minimum(shape.num_microbatches, shape.num_stages).astype(float)


def waiting(stage: int, shape: PipelineShape) -> FloatArray:
    """Those that 1F1B would no longer hold."""
    kept: FloatArray = np.minimum(shape.num_microbatches, shape.num_stages - stage).astype(float)
    return in_flight(stage, shape) - kept


pipelines.register("zb-h1")(
    Pipeline(
        order=order,
        pipeline_s=pipeline_s,
        in_flight=in_flight,
        waiting=waiting,
        problem=one_chunk,
        worst_short_frac=(0.05, 0.05, 0.05),
        summary="1F1B with weight gradients where stages would idle (zero bubble, memory of 1F1B)",
    )
)
