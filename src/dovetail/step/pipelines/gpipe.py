"""GPipe: all forward passes, then all backward passes."""

from __future__ import annotations

import numpy as np

from dovetail.step.hops import hops_before
from dovetail.step.pass_order import PassOrder, backward, forward, pass_order
from dovetail.step.pipelines import (
    Pipeline,
    PipelineShape,
    StageTimes,
    none_waiting,
    one_chunk,
    pipelines,
)
from dovetail.workload.graph import FloatArray


def order(shape: PipelineShape) -> PassOrder:
    """All microbatches forward, then all backward, the last one first: its activations are the latest."""
    microbatches = range(int(shape.num_microbatches))
    devices = (
        [*(forward(stage, i) for i in microbatches), *(backward(stage, i) for i in reversed(microbatches))]
        for stage in range(shape.num_stages)
    )
    return pass_order(devices, shape.num_stages)


def pipeline_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """One microbatch through all stages, the rest behind it at the pace of the slowest; and so back.

    Exact for any stages and transfers: the last stage turns round only when all microbatches have reached it.
    For equal stages (m + p - 1)(f + b). Source: Huang et al., NeurIPS 2019, section 2.3.
    """
    more = np.asarray(shape.num_microbatches) - 1
    sizes = np.bincount(times.stage_run) if times.stage_run else np.ones(shape.num_stages)
    ways_s = [way @ sizes + more * way.max(axis=-1) for way in times.by_run[:2]]
    through_s: FloatArray = (
        ways_s[0] + ways_s[1] + times.transfer @ (2 * hops_before(shape.num_stages, times.stage_pool)[-1])
    )
    return through_s


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """All of them, on every stage."""
    del stage
    return np.asarray(shape.num_microbatches, dtype=float)


pipelines.register("gpipe")(
    Pipeline(
        order=order,
        pipeline_s=pipeline_s,
        in_flight=in_flight,
        waiting=none_waiting,
        problem=one_chunk,
        worst_short_frac=(0.0, 0.0, 0.0),
        summary="all forward passes, then all backward",
    )
)
