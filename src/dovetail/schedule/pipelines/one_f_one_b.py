"""1F1B with a flush at the end of the step (PipeDream-flush)."""

from __future__ import annotations

from dovetail.schedule.pipelines import Pipeline, PipelineShape, StageTimes, pipelines


def step_s(times: StageTimes, shape: PipelineShape) -> float:
    """One microbatch through all stages and back, then the rest at the pace of the slowest stage.

    Exact for equal stages and free transfers: (m + p - 1)(f + b). For unequal stages an upper bound, tight when the
    slowest is the last and up to a quarter above when it is the first of many. Transfers are counted while the
    pipeline fills and drains only. Source: Narayanan et al., SC 2021, section 2.2.
    """
    num_hops = 2 * (shape.num_stages - 1)
    through_s = sum(times.forward_s) + sum(times.backward_s) + num_hops * times.transfer_s
    return through_s + (shape.num_microbatches - 1) * times.pace_s


def in_flight(stage: int, shape: PipelineShape) -> float:
    """A stage starts as many forward passes as there are stages from it to the last before its first backward."""
    return float(min(shape.num_microbatches, shape.num_stages - stage))


pipelines.register("1f1b")(Pipeline(step_s=step_s, in_flight=in_flight, summary="one forward, one backward, flush"))
