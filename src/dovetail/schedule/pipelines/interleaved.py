"""Interleaved 1F1B: each device holds several chunks of layers, so that the pipeline fills in smaller steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.schedule.pass_order import PassOrder, Row, backward, forward, pass_order
from dovetail.schedule.pipelines import (
    Pipeline,
    PipelineShape,
    StageTimes,
    none_waiting,
    pipelines,
    skeleton_step_s,
)
from dovetail.workload.graph import FloatArray


def order(shape: PipelineShape) -> PassOrder:
    """As 1F1B, each group of as many microbatches as stages through one chunk after the other.

    Source: Narayanan et al., SC 2021, section 2.2.2.
    """
    num_chunks = shape.num_stages * int(shape.interleave)
    return pass_order((_passes(stage, shape) for stage in range(shape.num_stages)), num_chunks)


def _passes(stage: int, shape: PipelineShape) -> Iterator[Row]:
    num_stages, interleave = shape.num_stages, int(shape.interleave)
    num_passes = int(shape.num_microbatches) * interleave

    def place(index: int) -> tuple[int, int]:
        """Which of the device's chunks the index-th forward pass is of, and its microbatch."""
        group, within = divmod(index, num_stages * interleave)
        return within // num_stages, group * num_stages + within % num_stages

    ahead = _ahead(stage, shape)
    for index in range(num_passes + ahead):
        if index < num_passes:
            chunk, microbatch = place(index)
            yield forward(chunk * num_stages + stage, microbatch)
        if 0 <= index - ahead < num_passes:
            chunk, microbatch = place(index - ahead)
            yield backward((interleave - 1 - chunk) * num_stages + stage, microbatch)


def _ahead(stage: int, shape: PipelineShape) -> int:
    """Forward passes of a chunk before a device's first pair of forward and backward."""
    return 2 * (shape.num_stages - stage - 1) + (int(shape.interleave) - 1) * shape.num_stages


def step_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """For equal stages m (f + b) + (p - 1)(f + b) / v, exact, and with small transfers too.

    Otherwise the longest path through first and last passes: never above the played-out schedule.
    Short of it at most and in the mean, each of 250 random pipelines of 2 to 16 stages with transfers to 5 % of a pass:
    1.7 % and 0.07 % with stages within 30 % of the mean, 3.4 % and 0.05 % with one up to twice
    as slow, 3.5 % and 0.28 % with times anywhere from 1 to 10.
    Other draws of the first reached 2.5 %, of the last 3.7 %.
    Source: Narayanan et al., SC 2021, section 2.2.2, for the equal case.
    """
    return skeleton_step_s("interleaved", times, shape)


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """Chunk passes begun before the first backward, in whole microbatches.

    Source: Korthikanti et al. 2022, section 4.2.3: on the first stage 1 + (p - 1) / (p v) of all layers.
    """
    interleave = np.asarray(shape.interleave)
    begun = 2 * (shape.num_stages - stage - 1) + (interleave - 1) * shape.num_stages + 1
    held: FloatArray = np.minimum(shape.num_microbatches * interleave, begun) / interleave
    return held


def problem(shape: PipelineShape) -> str:
    if int(shape.interleave) == 1:
        return "needs more than one piece a stage: interleave must be 2 or more; got 1"
    if int(shape.num_microbatches) % shape.num_stages:
        return (
            f"needs the {shape.num_microbatches} microbatches to be a multiple of pipeline_parallel={shape.num_stages}"
        )
    return ""


pipelines.register("interleaved")(
    Pipeline(
        order=order,
        step_s=step_s,
        in_flight=in_flight,
        waiting=none_waiting,
        problem=problem,
        worst_short_frac=0.03,
        summary="1F1B over several chunks of layers a device",
    )
)
