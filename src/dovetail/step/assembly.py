"""A training step assembled from its stages, for plans of one pipeline shape, in columns.

A step is the pipeline (`pipeline_s`, bubble included), then the pool of the gradient sync that the backward pass does
not hide (`Assembly._gradient_sync_s`), then the optimizer's update. Energy comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dovetail.columns import distinct
from dovetail.hardware.chip import Chip
from dovetail.parallel.layout import StageGroup, even_runs
from dovetail.parallel.plan import Plans
from dovetail.step.communication import timed
from dovetail.step.hops import sending_kinds
from dovetail.step.offload import NoOffload, with_offload
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines, schedule_name
from dovetail.step.plan_table import PlanContext, collective_s
from dovetail.step.stage_columns import StageColumns, held_elements, hidden_s, stage_columns
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, Graph, IntArray

# Schedules in which the last pass of every stage lies on the path to the end of the step: recompute that hides the
# gradient sync delays the end as much. In others it may fill a bubble, and what hides behind it hid there already.
STRAIGHT = ("1f1b", "gpipe")
SPLIT = ("zb-h1", "zb-v", "dualpipe")  # schedules whose weight gradients have passes of their own
_KEYS = ("work_of", "update_of", "grad_sync_of")
_OF_KEY = {"update_s": "update_of", "update_j": "update_of", "grad_sync": "grad_sync_of"}  # all else is of work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageShapeGroup:
    """Plans whose pipelines have one shape: their rows in the table, and the runs of equal stages they share."""

    rows: IntArray
    name: str
    num_stages: int
    interleave: int
    num_copies: int
    runs: tuple[StageGroup, ...]

    @property
    def stage_run(self) -> tuple[int, ...]:
        """The run of every stage."""
        return tuple(index for index, run in enumerate(self.runs) for _ in range(run.num_stages))

    @property
    def stage_pool(self) -> tuple[int, ...]:
        """The pool of the cluster that every stage is on; none where all devices are equal."""
        pools = tuple(run.pool for run in self.runs for _ in range(run.num_stages))
        return pools if any(pools) else ()


def stage_shape_group(plans: Plans, rows: IntArray, runs: tuple[StageGroup, ...]) -> StageShapeGroup:
    """The plans in `rows`, which have the pipeline of the first of them."""
    plan = plans.plan(int(rows[0]))
    return StageShapeGroup(
        rows=rows,
        name=schedule_name(plan),
        num_stages=plan.pipeline_parallel,
        interleave=plan.interleave,
        num_copies=plan.num_copies,
        runs=runs,
    )


def by_pipeline(graph: Graph, plans: Plans) -> Iterator[StageShapeGroup]:
    """`plans`, whose layers are spread evenly, by the pipeline they have."""
    first, shape_of = distinct(plans.pipeline_parallel, plans.interleave, plans.schedule)
    for index, row in enumerate(first):
        plan = plans.plan(int(row))
        runs = even_runs(graph, plan.pipeline_parallel, plan.interleave, plan.schedule)
        yield stage_shape_group(plans, np.flatnonzero(shape_of == index), runs)


def pool_columns(
    context: PlanContext, runs: tuple[StageGroup, ...], rows: IntArray, *, fills_waits: bool
) -> StageColumns:
    """Stage columns of the plans in `rows`; each run of stages is costed on the pool of the cluster it is on."""
    by_pool = []
    for index, pool in enumerate(context.pools):
        stage_groups = tuple(run for run in runs if run.pool == index)
        columns = stage_columns(
            pool.table, stage_groups, rows, context.graph, pool.places, context.precision, fills_waits=fills_waits
        )
        by_pool.append(columns)
    return joined_columns(by_pool, [run.pool for run in runs]) if context.others else by_pool[0]


def joined_columns(by_pool: Sequence[StageColumns], pool_of_run: Sequence[int]) -> StageColumns:
    """The columns of all runs of stages in pipeline order, from the columns of each pool of the cluster."""
    place = np.argsort(np.argsort(pool_of_run, kind="stable"))  # of every run, where pools follow each other
    widths = np.bincount(pool_of_run, minlength=len(by_pool))
    found: dict[str, Any] = {}
    for key in _KEYS:
        first, found[key] = distinct(*(getattr(columns, key) for columns in by_pool))
        rows = [getattr(columns, key)[first] for columns in by_pool]
        names = [f.name for f in fields(StageColumns) if f.name not in _KEYS and _OF_KEY.get(f.name, "work_of") == key]
        for name in names:
            values = [getattr(columns, name) for columns in by_pool]
            found[name] = _side_by_side(values, rows, widths, place)
    return StageColumns(**found)


def _side_by_side(values: Sequence[Any], rows: Sequence[IntArray], widths: IntArray, place: IntArray) -> Any:
    """`values` of each pool, amounts rows by runs, joined along the runs; a plain number holds for all of them."""
    first = values[0]
    if is_dataclass(first) and not isinstance(first, type):
        pools = {f.name: [getattr(value, f.name) for value in values] for f in fields(first)}
        return replace(first, **{name: _side_by_side(amounts, rows, widths, place) for name, amounts in pools.items()})
    if isinstance(first, tuple):
        return tuple(_side_by_side(amounts, rows, widths, place) for amounts in zip(*values, strict=True))
    columns = [
        value[indices] if np.ndim(value) else np.full((len(indices), width), value)
        for value, indices, width in zip(values, rows, widths, strict=True)
    ]
    return np.concatenate(columns, axis=1)[:, place]


def stages_j(
    columns: StageColumns,
    runs: Sequence[StageGroup],
    pool: int,
    chip: Chip,
    num_passes: Amount,
    tied_bytes: FloatArray,
    handed: tuple[Amount, FloatArray],
) -> FloatArray:
    """Joules of one step, summed over one device of each stage on `pool`: compute and bytes sent, without idle power.

    `handed` is how often a stage sends boundary activations, and their bytes. All devices of `pool` have `chip`. First
    and last stage send each other the gradients of tied weights.
    """
    of_pool = np.flatnonzero([run.pool == pool for run in runs])
    sizes = np.array([run.num_stages for run in runs if run.pool == pool], dtype=np.float64)
    link_j = chip.energy.link_j_per_byte
    pass_j = ((columns.energy_j + link_j * columns.sent_bytes)[:, of_pool] @ sizes)[columns.work_of]
    per_step_j = (columns.update_j[:, of_pool] @ sizes)[columns.update_of]
    sent = (columns.grad_sync.sent_bytes[:, of_pool] @ sizes)[columns.grad_sync_of]
    num_ends = sum(end.pool == pool for end in (runs[0], runs[-1]))
    num_handed, boundary_activation_bytes = handed
    sent = sent + num_ends * tied_bytes + sizes.sum() * num_handed * boundary_activation_bytes
    return np.asarray(num_passes * pass_j + per_step_j + sent * link_j)


def by_stages(context: PlanContext, groups: list[StageShapeGroup]) -> Iterator[tuple[StageShapeGroup, StageColumns]]:
    """Each group with its stage columns; groups with the same runs of stages are costed together."""
    together: dict[tuple[tuple[StageGroup, ...], bool], list[StageShapeGroup]] = {}
    for group in groups:
        together.setdefault((group.runs, group.name in STRAIGHT), []).append(group)
    for (runs, is_straight), members in together.items():
        rows = np.concatenate([group.rows for group in members])
        columns = pool_columns(context, runs, rows, fills_waits=not is_straight)
        if not context.others:
            columns = with_offload(columns, context.offload, runs, rows)
        start = 0
        for group in members:
            yield group, columns.of(slice(start, start + len(group.rows)))
            start += len(group.rows)


def num_hiding_microbatches(group: StageShapeGroup, num_microbatches: IntArray) -> FloatArray:
    """How many microbatches' backward passes can hide the gradient sync: one, or more with interleaved chunks.

    A chunk's gradients are complete with its last microbatch. With interleaving, all chunks but one reach theirs while
    the other chunks of the last round of microbatches, one per stage, still run. Where weight gradients have passes of
    their own and there is one microbatch, only that pass hides it: half of the backward pass at most.
    """
    rounds = np.minimum(group.num_stages, num_microbatches)
    num_hiding = np.maximum(1.0, rounds * (group.interleave - 1) / group.interleave)
    return np.where((num_microbatches > 1) | (group.name not in SPLIT), num_hiding, 0.5)


def tied(context: PlanContext, group: StageShapeGroup) -> tuple[FloatArray, FloatArray]:
    """Bytes and seconds of the gradients that two stages sum once per step.

    These are tied weights on the last stage with their owner on the first; and, in schedules that hold the model
    twice, the two copies of a chunk (its share where ZeRO shards it).
    """
    tied_bytes = np.zeros(len(group.rows))
    if context.table.are_ties_apart[group.rows[0]]:
        held = sum(span.count * context.table.elements[span.block].tied for span in group.runs[-1].spans)
        tied_bytes += context.precision.reduce_bytes * held[context.table.cuts.of_plan[group.rows]]
    if group.num_copies > 1:
        plans = context.plans.at(group.rows)
        ranks = np.where(plans.zero_stage > 0, plans.data_parallel * plans.context_parallel, 1)
        plain, experts = held_elements(group.runs, context.graph, context.table, group.rows)
        most = (plain.gradients + experts.gradients).max(axis=1)
        tied_bytes += context.precision.reduce_bytes / ranks * most
    if not tied_bytes.any():
        return tied_bytes, tied_bytes
    pool = context.pools[group.runs[0].pool]
    if group.runs[0].pool != group.runs[-1].pool:
        return tied_bytes, timed("point-to-point", tied_bytes, context.between, context.least_link_frac)[0]
    link_frac, places = pool.cluster.chip.calibration.link_frac, pool.places.at(group.rows)
    return tied_bytes, collective_s("point-to-point", tied_bytes, places, "pipeline", link_frac)


class Assembly:
    """The steps of one group of plans: columns by plan, and by run of stages where stages differ."""

    def __init__(self, context: PlanContext, group: StageShapeGroup, columns: StageColumns) -> None:
        self.context, self.group, self.columns = context, group, columns
        self.num_microbatches = context.num_microbatches[group.rows]
        self.num_passes = self.num_microbatches / group.num_copies
        self.is_forward_only = context.graph.is_forward_only
        self.is_beside = context.plans.overlaps("pipeline")[group.rows]
        self.transfer_s = context.transfer_s[context.transfer_of[group.rows]]
        pipe = (columns.work_of, self.num_microbatches, context.transfer_of[group.rows], self.is_beside)
        self.pipe_rows, self.pipe_of = distinct(*pipe)
        self.hidden_s, self.exposed_s = self._gradient_sync_s()
        self.synced_s = self.exposed_s.max(axis=1)
        self.tied_bytes, self.tied_s = tied(context, group)
        self.landing_s = self._landing_s()
        self.update_s = columns.update_s.max(axis=1)[columns.update_of]

    @cached_property
    def pipeline_s(self) -> FloatArray:
        return self.pipeline_of(self.stage_times(is_transfer_free=False))

    @property
    def step_s(self) -> FloatArray:
        return np.asarray(self.pipeline_s + self.tied_s + self.synced_s + self.landing_s + self.update_s)

    def stage_times(self, *, is_transfer_free: bool) -> StageTimes:
        """One microbatch on each stage, for `pipe_rows`; transfers that do not overlap are pool of a pass."""
        group, columns = self.group, self.columns
        transfer_s, is_beside = self.transfer_s[self.pipe_rows], self.is_beside[self.pipe_rows, None]
        share = group.num_copies * group.interleave
        on_s, back_s = (share * hop_s[self.pipe_rows] for hop_s in self.hops_s)
        work = columns.work_of[self.pipe_rows]
        is_lag = is_beside & (not is_transfer_free)
        return StageTimes(
            forward_s=columns.forward_s[work] + np.where(is_beside, 0.0, on_s),
            backward_s=columns.backward_s[work] + np.where(is_beside, 0.0, back_s),
            weight_s=columns.deferrable_wgrad_s[work],
            transfer_s=np.where(is_lag if group.stage_pool else is_lag[:, 0], transfer_s, 0.0),
            stage_run=group.stage_run,
            stage_pool=group.stage_pool,
        )

    @property
    def hops_s(self) -> tuple[FloatArray, FloatArray]:
        """Seconds to send activations to the next stage, and gradients to the one before: plans by runs, or by one."""
        if not (stage_pool := self.group.stage_pool):
            on_s = self.transfer_s[:, None]
            return on_s, np.zeros_like(on_s) if self.is_forward_only else on_s
        first = [run.first_stage for run in self.group.runs]
        on, back = sending_kinds(stage_pool, goes_round=self.group.name == "interleaved")
        back_s = self.transfer_s[:, back[first]]
        return self.transfer_s[:, on[first]], np.zeros_like(back_s) if self.is_forward_only else back_s

    def pipeline_of(self, times: StageTimes) -> FloatArray:
        """From the first forward to the last backward pass of a step, bubble included; of evaluation, all forward ones.

        Microbatches that take the same on each stage come out one after another at the pace of the slowest.
        """
        if self.is_forward_only:
            forward_s, hops_s = times.forward, times.transfer.max(axis=-1)
            rest = self.num_microbatches[self.pipe_rows] - 1
            first_s = forward_s.sum(axis=-1) + (self.group.num_stages - 1) * hops_s
            return np.asarray((first_s + rest * forward_s.max(axis=-1))[self.pipe_of])
        shape = PipelineShape(
            num_stages=self.group.num_stages,
            num_microbatches=self.num_microbatches[self.pipe_rows],
            interleave=self.group.interleave,
        )
        return np.asarray(pipelines[self.group.name].pipeline_s(times, shape)[self.pipe_of])

    def _gradient_sync_s(self) -> tuple[FloatArray, FloatArray]:
        """Gradient sync overlap: its hidden and its exposed seconds, plans by runs."""
        return self._overlapped_s(self._sync_columns())

    def exposed_in_s(self, places: IntArray) -> FloatArray:
        """Exposed seconds of the gradient sync where a pipeline of the one plan has these runs: pipelines by places."""
        return self._overlapped_s([column[0][places] for column in self._sync_columns()])[1]

    def _sync_columns(self) -> list[FloatArray]:
        """What the overlap of the gradient sync follows from, plans by runs: arguments of `_overlapped_s`."""
        columns, sync = self.columns, self.columns.grad_sync
        slowdown_frac = np.array([self.context.pools[run.pool].compute_slowdown_frac for run in self.group.runs])
        return [
            sync.reduce_s[columns.grad_sync_of],
            sync.gather_s[columns.grad_sync_of],
            columns.free_forward_s[columns.work_of],
            columns.free_backward_s[columns.work_of],
            (columns.forward_s + columns.backward_s)[columns.work_of],
            self.num_hiding_passes,
            np.broadcast_to(slowdown_frac, self.num_hiding_passes.shape),
        ]

    def _overlapped_s(self, sync: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The sync of a block's gradients starts when its backward pass ends, so all blocks but the first hide it.

        Passes of a stage come at the pace of the slowest: what a stage waits for that hides it too, once. In straight
        schedules it waits for nothing, as the last pass of every stage lies on the path to the end.
        """
        reduce_s, gather_s, free_forward_s, free_backward_s, both_s, num_passes, slowdown_frac = sync
        waits_s = 0.0 if self.group.name in STRAIGHT else both_s.max(axis=1, keepdims=True) - both_s
        room_s = free_forward_s + waits_s, free_backward_s + waits_s
        most_s = free_forward_s + room_s[1]
        behind_s = hidden_s(reduce_s, gather_s, room_s, most_s, num_passes, slowdown_frac)
        return behind_s, reduce_s + gather_s - behind_s

    @property
    def num_hiding_passes(self) -> FloatArray:
        """How many passes of a stage can hide the gradient sync, plans by runs; 0 where the plan overlaps nothing."""
        first_frac = np.array([(run.num_blocks - 1) / run.num_blocks for run in self.group.runs])
        may_hide = self.context.plans.overlaps("data")[self.group.rows]
        return np.asarray(np.where(may_hide, self.num_hiding_microbatches, 0.0)[:, None] * first_frac)

    def _landing_s(self) -> FloatArray:
        """Exposed seconds of copying gradients to the host, where the optimizer is offloaded."""
        context, columns = self.context, self.columns
        if isinstance(context.offload, NoOffload):
            return np.zeros(len(self.group.rows))
        copied_s = context.offload.gradients_s(self.group.runs, self.group.rows)
        room_s = self.num_hiding_passes * columns.hiding_backward_s[columns.work_of]
        return np.asarray(np.maximum(0.0, copied_s - room_s).max(axis=1))

    @property
    def num_hiding_microbatches(self) -> FloatArray:
        return num_hiding_microbatches(self.group, self.num_microbatches)

    def energy_j(self) -> FloatArray:
        """Energy of all devices: compute, bytes sent, and idle power over the whole step."""
        context, group, table = self.context, self.group, self.context.table
        idle_w = sum(pool.table.chip_at(group.rows).energy.idle_w * pool.cluster.num_devices for pool in context.pools)
        ways = 1 if self.is_forward_only else 2
        num_handed = ways * group.interleave * self.num_microbatches if group.num_stages > 1 else 0
        handed = num_handed, context.sharded.boundary_activation_bytes[table.cuts.of_plan[group.rows]]
        replica_j = sum(
            stages_j(self.columns, group.runs, index, pool.cluster.chip, self.num_passes, self.tied_bytes, handed)
            for index, pool in enumerate(context.pools)
        )
        return np.asarray(idle_w * self.step_s + table.num_devices / group.num_stages * replica_j)
