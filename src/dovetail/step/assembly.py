"""Plans of one pipeline put together, in columns: the pipeline, what is exchanged once a step, the update, energy."""

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
from dovetail.step.plan_table import PlanContext, exchanged_s
from dovetail.step.stage_columns import StageColumns, held_elements, hidden_s, stage_columns
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, Graph, IntArray

# Schedules in which the last pass of every stage lies on the path to the end of the step: recompute that hides an
# exchange delays the end as much. In others it may fill a stage's waits, and what hides behind it hid there already.
STRAIGHT = ("1f1b", "gpipe")
_KEYS = ("work_of", "update_of", "exchange_of")
_OF_KEY = {"update_s": "update_of", "update_j": "update_of", "exchange": "exchange_of"}  # all else is of work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageShapeGroup:
    """Plans with the same pipeline: the rows they are in, and the runs of stages they share."""

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


def alike(plans: Plans, rows: IntArray, runs: tuple[StageGroup, ...]) -> StageShapeGroup:
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
        yield alike(plans, np.flatnonzero(shape_of == index), runs)


def pool_columns(
    every: PlanContext, runs: tuple[StageGroup, ...], rows: IntArray, *, fills_waits: bool
) -> StageColumns:
    """The columns of plans in `rows`: of each pool of the cluster those of the runs that are on it."""
    by_pool = []
    for index, pool in enumerate(every.pools):
        here = tuple(run for run in runs if run.pool == index)
        columns = stage_columns(
            pool.table, here, rows, every.graph, pool.places, every.precision, fills_waits=fills_waits
        )
        by_pool.append(columns)
    return joined_columns(by_pool, [run.pool for run in runs]) if every.others else by_pool[0]


def joined_columns(by_pool: Sequence[StageColumns], pool_of_run: Sequence[int]) -> StageColumns:
    """The columns of all runs, of which those on each pool are given, in order."""
    place = np.argsort(np.argsort(pool_of_run, kind="stable"))  # of every run, where pools follow each other
    widths = np.bincount(pool_of_run, minlength=len(by_pool))
    found: dict[str, Any] = {}
    for key in _KEYS:
        first, found[key] = distinct(*(getattr(some, key) for some in by_pool))
        rows = [getattr(some, key)[first] for some in by_pool]
        names = [f.name for f in fields(StageColumns) if f.name not in _KEYS and _OF_KEY.get(f.name, "work_of") == key]
        for name in names:
            values = [getattr(some, name) for some in by_pool]
            found[name] = _side_by_side(values, rows, widths, place)
    return StageColumns(**found)


def _side_by_side(values: Sequence[Any], rows: Sequence[IntArray], widths: IntArray, place: IntArray) -> Any:
    """Values whose amounts are rows by runs as one, of some of the rows and all runs; numbers are for all of them."""
    first = values[0]
    if is_dataclass(first) and not isinstance(first, type):
        by_field = {f.name: [getattr(value, f.name) for value in values] for f in fields(first)}
        return replace(first, **{name: _side_by_side(some, rows, widths, place) for name, some in by_field.items()})
    if isinstance(first, tuple):
        return tuple(_side_by_side(some, rows, widths, place) for some in zip(*values, strict=True))
    wide = [
        value[some] if np.ndim(value) else np.full((len(some), width), value)
        for value, some, width in zip(values, rows, widths, strict=True)
    ]
    return np.concatenate(wide, axis=1)[:, place]


def stages_j(
    columns: StageColumns,
    runs: Sequence[StageGroup],
    pool: int,
    chip: Chip,
    num_passes: Amount,
    tied_bytes: FloatArray,
    handed: tuple[Amount, FloatArray],
) -> FloatArray:
    """Work done and bytes sent in a step by a device of each stage on `pool`, all of which are of `chip`.

    `handed`: how often a stage hands on, and the bytes of it. First and last stage send each other what is tied.
    """
    here = np.flatnonzero([run.pool == pool for run in runs])
    sizes = np.array([run.num_stages for run in runs if run.pool == pool], dtype=np.float64)
    link_j = chip.energy.link_j_per_byte
    pass_j = ((columns.energy_j + link_j * columns.sent_bytes)[:, here] @ sizes)[columns.work_of]
    per_step_j = (columns.update_j[:, here] @ sizes)[columns.update_of]
    sent = (columns.exchange.sent_bytes[:, here] @ sizes)[columns.exchange_of]
    num_ends = sum(end.pool == pool for end in (runs[0], runs[-1]))
    num_handed, boundary_activation_bytes = handed
    sent = sent + num_ends * tied_bytes + sizes.sum() * num_handed * boundary_activation_bytes
    return np.asarray(num_passes * pass_j + per_step_j + sent * link_j)


def by_stages(every: PlanContext, groups: list[StageShapeGroup]) -> Iterator[tuple[StageShapeGroup, StageColumns]]:
    """Every group with its stages; groups with the same runs share the work of a microbatch."""
    together: dict[tuple[tuple[StageGroup, ...], bool], list[StageShapeGroup]] = {}
    for group in groups:
        together.setdefault((group.runs, group.name in STRAIGHT), []).append(group)
    for (runs, is_straight), some in together.items():
        rows = np.concatenate([group.rows for group in some])
        columns = pool_columns(every, runs, rows, fills_waits=not is_straight)
        if not every.others:
            columns = with_offload(columns, every.offload, runs, rows)
        start = 0
        for group in some:
            yield group, columns.of(slice(start, start + len(group.rows)))
            start += len(group.rows)


def num_hiding(same: StageShapeGroup, num_microbatches: IntArray) -> FloatArray:
    """Microbatches behind which an exchange can hide.

    Gradients are whole with the last microbatch. Of interleaved chunks all but one have seen theirs while the
    other chunks of a round of microbatches, one a stage, still run.
    """
    rounds = np.minimum(same.num_stages, num_microbatches)
    return np.maximum(1.0, rounds * (same.interleave - 1) / same.interleave)


def tied(every: PlanContext, same: StageShapeGroup) -> tuple[FloatArray, FloatArray]:
    """Bytes of gradients that two stages exchange once a step, and its seconds.

    Tied weights on the last stage and their owner on the first; and the two holders of a chunk, of its share where
    ZeRO cuts them.
    """
    tied_bytes = np.zeros(len(same.rows))
    if every.table.are_ties_apart[same.rows[0]]:
        held = sum(span.count * every.table.elements[span.block].tied for span in same.runs[-1].spans)
        tied_bytes += every.precision.reduce_bytes * held[every.table.cuts.of_plan[same.rows]]
    if same.num_copies > 1:
        plans = every.plans.at(same.rows)
        ranks = np.where(plans.zero_stage > 0, plans.data_parallel * plans.context_parallel, 1)
        plain, experts = held_elements(same.runs, every.graph, every.table, same.rows)
        most = (plain.gradients + experts.gradients).max(axis=1)
        tied_bytes += every.precision.reduce_bytes / ranks * most
    if not tied_bytes.any():
        return tied_bytes, tied_bytes
    pool = every.pools[same.runs[0].pool]
    if same.runs[0].pool != same.runs[-1].pool:
        return tied_bytes, timed("point-to-point", tied_bytes, every.between, every.least_link_frac)[0]
    link_frac, places = pool.cluster.chip.calibration.link_frac, pool.places.at(same.rows)
    return tied_bytes, exchanged_s("point-to-point", tied_bytes, places, "pipeline", link_frac)


class Assembly:
    """One pipeline's plans: columns by plan, and by run of stages where they differ."""

    def __init__(self, every: PlanContext, same: StageShapeGroup, columns: StageColumns) -> None:
        self.shared, self.same, self.columns = every, same, columns
        self.num_microbatches = every.num_microbatches[same.rows]
        self.num_passes = self.num_microbatches / same.num_copies
        self.is_beside = every.plans.overlaps("pipeline")[same.rows]
        self.transfer_s = every.transfer_s[every.transfer_of[same.rows]]
        pipe = (columns.work_of, self.num_microbatches, every.transfer_of[same.rows], self.is_beside)
        self.pipe_rows, self.pipe_of = distinct(*pipe)
        self.hidden_s, self.exposed_s = self._synced()
        self.synced_s = self.exposed_s.max(axis=1)
        self.tied_bytes, self.tied_s = tied(every, same)
        self.landing_s = self._landing_s()
        self.update_s = columns.update_s.max(axis=1)[columns.update_of]

    @cached_property
    def pipeline_s(self) -> FloatArray:
        return self.pipeline_of(self.stage_times(is_transfer_free=False))

    @property
    def step_s(self) -> FloatArray:
        return np.asarray(self.pipeline_s + self.tied_s + self.synced_s + self.landing_s + self.update_s)

    def stage_times(self, *, is_transfer_free: bool) -> StageTimes:
        """Times of every stage of `pipe_rows`; transfers beside compute take no device's time, others are in it."""
        same, columns = self.same, self.columns
        transfer_s, is_beside = self.transfer_s[self.pipe_rows], self.is_beside[self.pipe_rows, None]
        share = same.num_copies * same.interleave
        on_s, back_s = (share * hop_s[self.pipe_rows] for hop_s in self.hops_s)
        work = columns.work_of[self.pipe_rows]
        is_lag = is_beside & (not is_transfer_free)
        return StageTimes(
            forward_s=columns.forward_s[work] + np.where(is_beside, 0.0, on_s),
            backward_s=columns.backward_s[work] + np.where(is_beside, 0.0, back_s),
            weight_s=columns.deferrable_wgrad_s[work],
            transfer_s=np.where(is_lag if same.stage_pool else is_lag[:, 0], transfer_s, 0.0),
            stage_run=same.stage_run,
            stage_pool=same.stage_pool,
        )

    @property
    def hops_s(self) -> tuple[FloatArray, FloatArray]:
        """What a stage of each run takes to hand a chunk on, and to hand a gradient back: plans by runs, or by one."""
        if not (stage_pool := self.same.stage_pool):
            return self.transfer_s[:, None], self.transfer_s[:, None]
        first = [run.first_stage for run in self.same.runs]
        on, back = sending_kinds(stage_pool, goes_round=self.same.name == "interleaved")
        return self.transfer_s[:, on[first]], self.transfer_s[:, back[first]]

    def pipeline_of(self, times: StageTimes) -> FloatArray:
        """From the first forward to the last backward pass of a step."""
        shape = PipelineShape(
            num_stages=self.same.num_stages,
            num_microbatches=self.num_microbatches[self.pipe_rows],
            interleave=self.same.interleave,
        )
        return np.asarray(pipelines[self.same.name].step_s(times, shape)[self.pipe_of])

    def _synced(self) -> tuple[FloatArray, FloatArray]:
        """Hidden and exposed seconds of what is exchanged once a step, plans by runs.

        All but the block that starts an exchange hide it.
        """
        columns, made = self.columns, self.columns.exchange
        reduce_s, gather_s = made.reduce_s[columns.exchange_of], made.gather_s[columns.exchange_of]
        room_s = columns.free_forward_s[columns.work_of], columns.free_backward_s[columns.work_of]
        compute_slowdown_frac = np.array([self.shared.pools[run.pool].compute_slowdown_frac for run in self.same.runs])
        behind_s = hidden_s(reduce_s, gather_s, room_s, self.hiding_share, compute_slowdown_frac)
        return behind_s, reduce_s + gather_s - behind_s

    @property
    def hiding_share(self) -> FloatArray:
        """How many of a stage's passes serve to hide what is moved once a step, plans by runs: none if none may."""
        first_frac = np.array([(run.num_blocks - 1) / run.num_blocks for run in self.same.runs])
        may_hide = self.shared.plans.overlaps("data")[self.same.rows]
        return np.asarray(np.where(may_hide, self.num_hiding, 0.0)[:, None] * first_frac)

    def _landing_s(self) -> FloatArray:
        """Seconds until gradients are on the host that updates, beyond the backward pass they hide behind."""
        every, columns = self.shared, self.columns
        if isinstance(every.offload, NoOffload):
            return np.zeros(len(self.same.rows))
        copied_s = every.offload.gradients_s(self.same.runs, self.same.rows)
        room_s = self.hiding_share * columns.hiding_backward_s[columns.work_of]
        return np.asarray(np.maximum(0.0, copied_s - room_s).max(axis=1))

    @property
    def num_hiding(self) -> FloatArray:
        return num_hiding(self.same, self.num_microbatches)

    def energy_j(self) -> FloatArray:
        """Energy of all devices: work done, bytes sent, and being on for the whole step."""
        every, same, table = self.shared, self.same, self.shared.table
        idle_w = sum(pool.table.chip_at(same.rows).energy.idle_w * pool.cluster.num_devices for pool in every.pools)
        num_handed = 2 * same.interleave * self.num_microbatches if same.num_stages > 1 else 0
        handed = num_handed, every.sharded.boundary_activation_bytes[table.cuts.of_plan[same.rows]]
        replica_j = sum(
            stages_j(self.columns, same.runs, index, pool.cluster.chip, self.num_passes, self.tied_bytes, handed)
            for index, pool in enumerate(every.pools)
        )
        return np.asarray(idle_w * self.step_s + table.num_devices / same.num_stages * replica_j)
