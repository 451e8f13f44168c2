"""ZB-V: microbatches go down the devices and up again, so that the first one turns into backward at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dovetail.step.pass_order import Kind, PassOrder, Row, pass_order
from dovetail.step.pipelines import Pipeline, PipelineShape, StageTimes, pipelines, skeleton_pipeline_s, two_chunks
from dovetail.workload.graph import FloatArray

_F, _B, _W = Kind.FORWARD, Kind.INPUT, Kind.WEIGHT
_DOWN, _UP = 0, 1  # a device's two chunks


def order(shape: PipelineShape) -> PassOrder:
    """Device s holds chunk s of the way down and chunk 2p - 1 - s of the way up.

    Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 6, for passes that take
    equally long; how many passes each phase has is as in PyTorch's ScheduleZBVZeroBubble.
    """
    return pass_order((_passes(stage, shape) for stage in range(shape.num_stages)), 2 * shape.num_stages)


def _passes(stage: int, shape: PipelineShape) -> Iterator[Row]:
    chunks = (stage, 2 * shape.num_stages - 1 - stage)
    seen: Counter[tuple[Kind, int]] = Counter()
    for kind, side in _sequence(stage, shape):
        yield kind, chunks[side], seen[kind, side], False
        seen[kind, side] += 1


def _sequence(stage: int, shape: PipelineShape) -> Iterator[tuple[Kind, int]]:
    """Kind and side of each pass; microbatches come in turn."""
    num_microbatches, after = int(shape.num_microbatches), shape.num_stages - stage
    begun = 2 * after - 1 + stage  # forward passes down until the first backward pass
    yield from [(_F, _DOWN)] * (2 * after - 1)
    yield from [(_F, _UP), (_F, _DOWN)] * stage
    yield from [(_F, _UP), (_B, _UP), (_W, _UP)] * after
    for i in range(num_microbatches - stage - after):
        yield from [(_F, _DOWN)] * (begun + i < num_microbatches)
        yield from [(_B, _DOWN), (_W, _DOWN), (_F, _UP), (_B, _UP), (_W, _UP)]
    yield from [(_B, _DOWN), (_B, _UP)] * stage
    yield from [(_B, _DOWN), (_W, _DOWN)] * after
    yield from [(_W, _UP)] * stage
    yield from [(_W, _DOWN)] * stage


def pipeline_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """For passes that all take t, 3 m t and (p - 1) t / 2 until the last device has something to do; exact.

    No device idles between its first and last pass then. Otherwise the longest path through first and last passes:
    exact for equal stages and free transfers, never above the played-out schedule.
    Short of it at most and in the mean, each of 1,900 random pipelines of 2 to 9 stages within 30 % of the mean:
    0.65 % and 0.03 % with transfers to 5 % of a pass, 1.8 % and 0.1 % to 20 %, 3.5 % and 0.2 % to 50 %; the worst have
    equal stages.
    Source: Qi et al., ICLR 2024, section 6, for passes that take equally long.
    """
    return skeleton_pipeline_s("zb-v", times, shape)


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """As many as there are stages, on each: two chunks of each of them. Source: Qi et al., ICLR 2024, section 6."""
    del stage
    return np.full(np.shape(shape.num_microbatches), float(shape.num_stages))


def waiting(stage: int, shape: PipelineShape) -> FloatArray:
    del stage
    return np.zeros(np.shape(shape.num_microbatches))


def problem(shape: PipelineShape) -> str:
    need = 2 * shape.num_stages - 1
    if int(shape.num_microbatches) < need:
        return f"needs 2 x pipeline_parallel - 1 = {need} microbatches or more; got {shape.num_microbatches}"
    return two_chunks(shape)


pipelines.register("zb-v")(
    Pipeline(
        order=order,
        pipeline_s=pipeline_s,
        in_flight=in_flight,
        waiting=waiting,
        problem=problem,
        worst_short_frac=(0.015, 0.025, 0.05),
        summary="down the devices and up again, backward split (zero bubble, memory of 1F1B)",
    )
)
