"""Pipeline schedules, one file each: how long a step takes and how many microbatches a stage holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """One microbatch on one stage, all its chunks together; `transfer_s` is what handing it on costs each way."""

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    transfer_s: float

    @property
    def pace_s(self) -> float:
        """The slowest stage's time for one microbatch, which a full pipeline runs at."""
        return max(f + b for f, b in zip(self.forward_s, self.backward_s, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """How long and how finely cut a pipeline is."""

    num_stages: int
    num_microbatches: int
    interleave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A schedule: `step_s` from the first forward to the last backward of a step, and `in_flight`, the
    microbatches whose activations the given stage holds at once.
    """

    step_s: Callable[[StageTimes, PipelineShape], float]
    in_flight: Callable[[int, PipelineShape], float]
    summary: str


pipelines: Registry[Pipeline] = Registry("pipeline schedule", __name__)
