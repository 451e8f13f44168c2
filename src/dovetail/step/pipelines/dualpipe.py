"""DualPipe: microbatches enter at both ends, each device holds a chunk of either way, forward runs beside backward."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import numpy as np

from dovetail.step.pass_order import Kind, PassOrder, Row, pass_order
from dovetail.step.pipelines import (
    Pipeline,
    PipelineShape,
    StageTimes,
    none_waiting,
    one_chunk,
    pipelines,
    skeleton_pipeline_s,
)
from dovetail.workload.graph import FloatArray

_F, _BOTH, _B, _W = Kind.FORWARD, Kind.BACKWARD, Kind.INPUT, Kind.WEIGHT
_NEAR, _FAR = 0, 1  # the way that enters at the nearer end of the pipeline, and the other
_Pass = tuple[Kind, int, bool]  # kind, way, whether it runs as one with the next


def order(shape: PipelineShape) -> PassOrder:
    """Half the microbatches enter at either end; device d is d-th on one way and d-th from the end on the other.

    Source: DeepSeek-V3 technical report (2024), section 3.2.1 and figure 5; the counts of each phase are those of the
    published schedule of 20 microbatches on 8 devices and of deepseek-ai/DualPipe.
    """
    return pass_order((_passes(device, shape) for device in range(shape.num_stages)), shape.num_stages)


def _passes(device: int, shape: PipelineShape) -> Iterator[Row]:
    down, up = device, 2 * shape.num_stages - 1 - device
    chunks = (down, up) if device < shape.num_stages // 2 else (up, down)
    seen: Counter[tuple[bool, int]] = Counter()
    put_off: deque[tuple[int, int]] = deque()
    for kind, way, is_joined in _sequence(min(device, shape.num_stages - 1 - device), shape):
        if kind == _W:
            yield _W, *put_off.popleft(), False
            continue
        microbatch = seen[kind == _F, way]
        seen[kind == _F, way] += 1
        if kind == _B:
            put_off.append((chunks[way], microbatch))
        yield kind, chunks[way], microbatch, is_joined


def _sequence(depth: int, shape: PipelineShape) -> Iterator[_Pass]:
    """Passes of a device that is `depth` from its end of the pipeline; weight gradients are the oldest put off."""
    inward = shape.num_stages // 2 - 1 - depth
    near, far = (_F, _NEAR, False), (_F, _FAR, False)
    yield from [near] * (2 * inward)
    yield from [near, far] * (depth + 1)
    yield from [(_B, _FAR, False), (_W, _FAR, False), far] * inward
    for i in range(int(shape.num_microbatches) // 2 - shape.num_stages + depth + 1):
        # the middle devices do not join their first pair: the other middle device waits for its forward half
        yield from [(_F, _NEAR, i > 0 or inward > 0), (_BOTH, _FAR, False), (_F, _FAR, True), (_BOTH, _NEAR, False)]
    yield from [(_BOTH, _FAR, False), (_F, _FAR, True), (_BOTH, _NEAR, False)] * inward
    ends = [(_FAR), (_NEAR)] * (depth + 1)
    yield from [(_BOTH if i <= depth else _B, way, False) for i, way in enumerate(ends)]
    yield from [(_W, _NEAR, False), (_B, _NEAR, False)] * inward
    yield from [(_W, _NEAR, False)] * (depth + 1)


def pipeline_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """For equal chunks m (f + b) + (p / 2 - 1)(2 f + b - 2 w), b giving both gradients and w <= f.

    Where f = b - w that is the (p / 2 - 1)(F&B + B - 3 W) of the report.

    A forward and a backward pass run as one take as long as both: what overlaps in them is for the times to say.
    `times` are of one microbatch each way, so that a chunk's f and b are half of a stage's. Otherwise the longest
    path through first and last passes: exact for equal chunks and free transfers, never above the played-out schedule.
    Short of it at most and in the mean, each of 1,900 random pipelines of 2 to 10 stages within 30 % of the mean:
    2.5 % and 0.19 % with transfers to 5 % of a pass, 5.3 % and 0.7 % to 20 %, 10.6 % and 1.7 % to 50 %; the worst have
    equal stages, whose waits for each other's transfers in the middle of the step are not seen.
    Source: DeepSeek-V3 technical report (2024), table 2, for equal chunks.
    """
    return skeleton_pipeline_s("dualpipe", times, shape)


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """p + 1 chunks, and two make a microbatch of each way. Source: DeepSeek-V3 technical report (2024), table 2."""
    del stage
    return np.full(np.shape(shape.num_microbatches), (shape.num_stages + 1) / 2)


def problem(shape: PipelineShape) -> str:
    num_stages, num_microbatches = shape.num_stages, int(shape.num_microbatches)
    if num_stages % 2:
        return f"enters at both ends: pipeline_parallel must be even; got {num_stages}"
    if num_microbatches % 2 or num_microbatches < 2 * num_stages:
        return (
            f"needs an even number of microbatches, 2 x pipeline_parallel = {2 * num_stages} or more;"
            f" got {num_microbatches}"
        )
    return one_chunk(shape)


pipelines.register("dualpipe")(
    Pipeline(
        order=order,
        pipeline_s=pipeline_s,
        in_flight=in_flight,
        waiting=none_waiting,
        problem=problem,
        summary="from both ends at once, the model held twice (DeepSeek-V3)",
        num_copies=2,
        worst_short_frac=(0.04, 0.07, 0.13),
    )
)
