"""Pipeline schedules, one file each: the order of passes, how long a step takes, what a stage holds meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dovetail.registry import Registry
from dovetail.schedule.pass_order import PassOrder
from dovetail.schedule.pipeline_events import ChunkTimes
from dovetail.schedule.pipeline_skeleton import Skeleton, skeleton, skeleton_s
from dovetail.workload.graph import FloatArray

Counts: TypeAlias = int | npt.NDArray[np.int64]  # one, or one a plan


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """One microbatch on each stage, all its chunks together: numbers by stage, or arrays of plans by stage.

    `backward_s` gives both gradients, and `weight_s` is the part of it that only weight gradients take. `transfer_s`,
    one or one a plan, is what handing a microbatch on takes each way.
    """

    forward_s: npt.ArrayLike
    backward_s: npt.ArrayLike
    weight_s: npt.ArrayLike = 0.0
    transfer_s: npt.ArrayLike = 0.0

    @property
    def pace_s(self) -> FloatArray:
        """The slowest stage's time for one microbatch, which a full pipeline runs at."""
        slowest_s: FloatArray = (self.forward + self.backward).max(axis=-1)
        return slowest_s

    @property
    def forward(self) -> FloatArray:
        return np.asarray(self.forward_s, dtype=float)

    @property
    def backward(self) -> FloatArray:
        return np.asarray(self.backward_s, dtype=float)

    @property
    def weight(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self.weight_s, dtype=float), self.backward.shape)

    @property
    def transfer(self) -> FloatArray:
        return np.asarray(self.transfer_s, dtype=float)

    def chunk_times(self, order: PassOrder) -> ChunkTimes:
        """Of a single plan: what each chunk of `order` takes, those of a device alike."""
        share = order.chunk_devices, order.chunks_per_device
        forward_s, backward_s, weight_s = (
            way[share[0]] / share[1] for way in (self.forward, self.backward, self.weight)
        )
        return ChunkTimes(
            forward_s=forward_s,
            input_s=backward_s - weight_s,
            weight_s=weight_s,
            transfer_s=float(self.transfer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """How long and how finely cut a pipeline is; plans of one length may be taken together."""

    num_stages: int
    num_microbatches: Counts
    interleave: Counts = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A schedule.

    `order`: what each device runs, of a single plan. `step_s`: from the first forward to the last backward of a step,
    of many plans at once. `in_flight`: the microbatches whose activations the given stage holds at its fullest;
    `waiting`: those of them that only a weight gradient needs. `problem`: the rule that a single plan's shape breaks,
    or nothing. `num_copies`: how often the pipeline holds the model; each copy takes its share of the microbatches.
    `worst_short_frac`: how far `step_s` may fall short of the order played out, for stages within 30 % of the mean
    and transfers within 5 % of a forward pass: above the worst found in random draws, not proven.
    """

    order: Callable[[PipelineShape], PassOrder]
    step_s: Callable[[StageTimes, PipelineShape], FloatArray]
    in_flight: Callable[[int, PipelineShape], FloatArray]
    waiting: Callable[[int, PipelineShape], FloatArray]
    problem: Callable[[PipelineShape], str]
    worst_short_frac: float
    summary: str
    num_copies: int = 1


pipelines: Registry[Pipeline] = Registry("pipeline schedule", __name__)


def none_waiting(stage: int, shape: PipelineShape) -> FloatArray:
    """Of a schedule whose backward passes give both gradients at once."""
    del stage
    return np.zeros(np.shape(shape.num_microbatches))


def one_chunk(shape: PipelineShape) -> str:
    """The rule of schedules that cut a stage no further."""
    if int(shape.interleave) == 1:
        return ""
    return f"takes a stage whole: interleave must be 1; got {shape.interleave}"


def two_chunks(shape: PipelineShape) -> str:
    """The rule of schedules that come past each stage twice."""
    if int(shape.interleave) == 2:
        return ""
    return f"comes past each stage twice: interleave must be 2; got {shape.interleave}"


def skeleton_step_s(name: str, times: StageTimes, shape: PipelineShape) -> FloatArray:
    """Step of the named schedule by its first and last passes; see `schedule/pipeline_skeleton.py`.

    Plans of as many microbatches and chunks go together. Beyond three a stage, microbatches only make the middle of a
    step longer.
    """
    num_microbatches, interleave = np.broadcast_arrays(shape.num_microbatches, shape.interleave)
    took_s = (times.forward, times.backward, times.backward - times.weight, times.weight)
    plans = np.broadcast_shapes(num_microbatches.shape, times.transfer.shape, times.forward.shape[:-1])
    counts = [np.broadcast_to(count, plans).ravel() for count in (num_microbatches, interleave)]
    kinds_s = np.stack(
        [np.broadcast_to(way, (*plans, shape.num_stages)).reshape(-1, shape.num_stages).T for way in took_s]
    )
    transfers_s = np.broadcast_to(times.transfer, plans).ravel()
    fewer = np.minimum(counts[0], 3 * shape.num_stages)
    step_s = np.empty(len(transfers_s))
    for few, cut in np.unique(np.stack([fewer, counts[1]], axis=1), axis=0).tolist():
        alike = np.flatnonzero((fewer == few) & (counts[1] == cut))
        chosen_s = kinds_s[:, :, alike]
        rounds = (counts[0][alike] - few) / pipelines[name].num_copies
        more_s = rounds * (chosen_s[0] + chosen_s[1])
        step_s[alike] = skeleton_s(_bones(name, shape.num_stages, few, cut), chosen_s, more_s, transfers_s[alike])
    return step_s.reshape(plans)


@lru_cache(maxsize=4096)
def _bones(name: str, num_stages: int, num_microbatches: int, interleave: int) -> Skeleton:
    shape = PipelineShape(num_stages=num_stages, num_microbatches=num_microbatches, interleave=interleave)
    return skeleton(pipelines[name].order(shape))
