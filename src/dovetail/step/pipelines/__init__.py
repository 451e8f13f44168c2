"""Pipeline schedules, one file each: the order of passes, how long a step takes, what a stage holds meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dovetail.errors import InvalidInput, NotModelled
from dovetail.parallel.plan import Plan
from dovetail.registry import Registry, at_withdrawal, holding
from dovetail.step.pass_order import PassOrder
from dovetail.step.pipeline_events import ChunkTimes
from dovetail.step.pipeline_skeleton import Paths, longest_s, paths, skeleton
from dovetail.workload.graph import FloatArray, IntArray

Counts: TypeAlias = int | npt.NDArray[np.int64]  # one, or one a plan

MOST_PASSES = 1_000_000  # style: a count; forward passes whose order is followed, in some 3 s and 700 MB
TRANSFER_FRACS = (0.05, 0.2, 0.5)  # of a chunk's forward pass, up to which `Pipeline.worst_short_frac` is told


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """One microbatch on each stage, all its chunks together: numbers by stage, or arrays of plans by stage.

    `backward_s` gives both gradients, and `weight_s` is the part of it that only weight gradients take. `transfer_s`,
    one or one a plan, is what handing a microbatch on takes each way. Where `stage_run` gives every stage a run of
    stages alike, those times are by run. Where `stage_pool` gives every stage a part of the cluster, `transfer_s` has
    one more axis, by kind of hop (see `step/hops.py`).
    """

    forward_s: npt.ArrayLike
    backward_s: npt.ArrayLike
    weight_s: npt.ArrayLike = 0.0
    transfer_s: npt.ArrayLike = 0.0
    stage_run: tuple[int, ...] = ()
    stage_pool: tuple[int, ...] = ()

    @property
    def pace_s(self) -> FloatArray:
        """The slowest stage's time for one microbatch, which a full pipeline runs at."""
        forward_s, backward_s, _ = self.by_run
        slowest_s: FloatArray = (forward_s + backward_s).max(axis=-1)
        return slowest_s

    @property
    def by_run(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Forward, backward and weight seconds of a stage of each run; without runs, of each stage."""
        backward_s = np.asarray(self.backward_s, dtype=float)
        weight_s = np.broadcast_to(np.asarray(self.weight_s, dtype=float), backward_s.shape)
        return np.asarray(self.forward_s, dtype=float), backward_s, weight_s

    @property
    def forward(self) -> FloatArray:
        return self._by_stage(self.by_run[0])

    @property
    def backward(self) -> FloatArray:
        return self._by_stage(self.by_run[1])

    @property
    def weight(self) -> FloatArray:
        return self._by_stage(self.by_run[2])

    @property
    def transfer(self) -> FloatArray:
        """By kind of hop, the last axis."""
        transfer_s = np.asarray(self.transfer_s, dtype=float)
        return transfer_s if self.stage_pool else transfer_s[..., None]

    def _by_stage(self, times_s: FloatArray) -> FloatArray:
        return times_s[..., list(self.stage_run)] if self.stage_run else times_s

    def chunk_times(self, order: PassOrder) -> ChunkTimes:
        """Of a single plan: what each chunk of `order` takes, those of a device alike."""
        share = order.chunk_devices, order.chunks_per_device
        forward_s, backward_s, weight_s = (
            direction[share[0]] / share[1] for direction in (self.forward, self.backward, self.weight)
        )
        return ChunkTimes(
            forward_s=forward_s,
            input_s=backward_s - weight_s,
            weight_s=weight_s,
            transfer_s=self.transfer,
            stage_pool=self.stage_pool,
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
    and transfers within each of `TRANSFER_FRACS`: above the worst found in random draws, not proven.
    """

    order: Callable[[PipelineShape], PassOrder]
    pipeline_s: Callable[[StageTimes, PipelineShape], FloatArray]
    in_flight: Callable[[int, PipelineShape], FloatArray]
    waiting: Callable[[int, PipelineShape], FloatArray]
    problem: Callable[[PipelineShape], str]
    worst_short_frac: tuple[float, float, float]
    summary: str
    num_copies: int = 1


pipelines: Registry[Pipeline] = Registry("pipeline schedule", __name__, check=holding("pipeline schedule", Pipeline))


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanColumns:
    """Times and counts of plans side by side: seconds of a stage are runs by plans."""

    shape: tuple[int, ...]  # that the plans came in
    forward_s: FloatArray
    backward_s: FloatArray
    weight_s: FloatArray
    transfer_s: FloatArray  # kinds of hop by plans
    num_microbatches: IntArray
    interleave: IntArray
    stage_run: tuple[int, ...]
    stage_pool: tuple[int, ...]


def plan_columns(times: StageTimes, shape: PipelineShape) -> PlanColumns:
    directions = times.by_run
    plans = np.broadcast_shapes(
        np.shape(shape.num_microbatches),
        np.shape(shape.interleave),
        times.transfer.shape[:-1],
        directions[0].shape[:-1],
    )
    num_runs, num_kinds = directions[0].shape[-1], times.transfer.shape[-1]
    transfer_s = np.broadcast_to(times.transfer, (*plans, num_kinds))
    forward_s, backward_s, weight_s = (
        np.ascontiguousarray(np.broadcast_to(direction, (*plans, num_runs)).reshape(-1, num_runs).T)
        for direction in directions
    )
    return PlanColumns(
        shape=plans,
        forward_s=forward_s,
        backward_s=backward_s,
        weight_s=weight_s,
        transfer_s=np.ascontiguousarray(transfer_s.reshape(-1, num_kinds).T),
        num_microbatches=np.broadcast_to(shape.num_microbatches, plans).ravel(),
        interleave=np.broadcast_to(shape.interleave, plans).ravel(),
        stage_run=times.stage_run or tuple(range(shape.num_stages)),
        stage_pool=times.stage_pool,
    )


def skeleton_pipeline_s(name: str, times: StageTimes, shape: PipelineShape) -> FloatArray:
    """Step of the named schedule by its first and last passes; see `step/pipeline_skeleton.py`.

    Plans of as many microbatches and chunks go together. Beyond three a stage, microbatches only make the middle of a
    step longer.
    """
    columns = plan_columns(times, shape)
    input_s = columns.backward_s - columns.weight_s
    fewer = np.minimum(columns.num_microbatches, 3 * shape.num_stages)
    pipeline_s = np.empty(len(fewer))
    most_chunks = int(columns.interleave.max(initial=0)) + 1
    pairs, pair_of = np.unique(fewer * most_chunks + columns.interleave, return_inverse=True)
    for index, (few, cut) in enumerate(divmod(pair, most_chunks) for pair in pairs.tolist()):
        rows = np.flatnonzero(pair_of.reshape(-1) == index)
        kinds_s = np.stack(
            [direction[:, rows] for direction in (columns.forward_s, columns.backward_s, input_s, columns.weight_s)]
        )
        rounds = (columns.num_microbatches[rows] - few) / pipelines[name].num_copies
        more_s = rounds * (kinds_s[0] + kinds_s[1])
        first_and_last = _paths_of(name, shape.num_stages, few, cut, columns.stage_run, columns.stage_pool)
        pipeline_s[rows] = longest_s(first_and_last, kinds_s, more_s, columns.transfer_s[:, rows])
    return pipeline_s.reshape(columns.shape)


@lru_cache(maxsize=4096)
def _paths_of(
    name: str,
    num_stages: int,
    num_microbatches: int,
    interleave: int,
    stage_run: tuple[int, ...],
    stage_pool: tuple[int, ...],
) -> Paths:
    shape = PipelineShape(num_stages=num_stages, num_microbatches=num_microbatches, interleave=interleave)
    num_passes = num_stages * num_microbatches * interleave
    if num_passes > MOST_PASSES:
        message = f"a pipeline of {num_stages:,} stages of {interleave:,} pieces has {num_passes:,} passes as it begins"
        raise NotModelled(f"{message}, and at most {MOST_PASSES:,} are followed; take fewer stages or pieces, or 1f1b")
    return paths(skeleton(pipelines[name].order(shape)), stage_run, stage_pool)


at_withdrawal(_paths_of.cache_clear)


def schedule_name(plan: Plan) -> str:
    """The plan's schedule; 1F1B of several chunks a stage is the interleaved one."""
    return "interleaved" if plan.schedule == "1f1b" and plan.interleave > 1 else plan.schedule


def check_schedule(plan: Plan, num_microbatches: int) -> None:
    """Raises `InvalidInput` with the rule that the plan breaks where its schedule cannot run so."""
    try:
        pipeline = pipelines[schedule_name(plan)]
    except InvalidInput as unknown:
        raise InvalidInput(unknown.message, "schedule") from None
    if rule := pipeline.problem(pipeline_shape(plan, num_microbatches)):
        raise InvalidInput(f"schedule {schedule_name(plan)} {rule}", "schedule")


def pipeline_shape(plan: Plan, num_microbatches: int) -> PipelineShape:
    return PipelineShape(
        num_stages=plan.pipeline_parallel, num_microbatches=num_microbatches, interleave=plan.interleave
    )
