"""Interleaved 1F1B: each device holds several chunks of layers, so that the pipeline fills in smaller steps."""

from __future__ import annotations

from dovetail.schedule.pipelines import Pipeline, PipelineShape, StageTimes, pipelines


def step_s(times: StageTimes, shape: PipelineShape) -> float:
    """As 1F1B, with the fill and drain of the other stages cut by `interleave`, and that many more transfers.

    Source: Narayanan et al., SC 2021, section 2.2.2: bubble (p - 1)(f + b) / v.
    """
    others_s = sum(times.forward_s) + sum(times.backward_s) - times.pace_s
    num_hops = 2 * (shape.num_stages - 1)
    return shape.num_microbatches * times.pace_s + others_s / shape.interleave + num_hops * times.transfer_s


def in_flight(stage: int, shape: PipelineShape) -> float:
    """Chunk passes begun before the first backward, in whole microbatches.

    Source: Korthikanti et al. 2022, section 4.2.3: on the first stage 1 + (p - 1) / (p v) of all layers.
    """
    warm_up = 2 * (shape.num_stages - stage - 1) + (shape.interleave - 1) * shape.num_stages + 1
    return min(shape.num_microbatches * shape.interleave, warm_up) / shape.interleave


pipelines.register("interleaved")(
    Pipeline(step_s=step_s, in_flight=in_flight, summary="1F1B over several chunks of layers a device")
)
