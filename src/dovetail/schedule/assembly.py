"""Plans of one pipeline put together, in columns: the pipeline, what is exchanged once a step, the update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.plan.cuts import local_elements
from dovetail.plan.layout import Run, even_runs
from dovetail.plan.placements import Placements, placements_of
from dovetail.plan.plan import Plan
from dovetail.plan.plans import Plans, distinct
from dovetail.schedule.pipelines import PipelineShape, StageTimes, pipelines
from dovetail.schedule.send_table import by_group, timed
from dovetail.schedule.stage_columns import StageColumns, stage_columns
from dovetail.schedule.sync import held_elements, hidden_s
from dovetail.schedule.work_columns import NUM_ROWS, NUM_TIMED
from dovetail.schedule.work_table import WorkTable, work_table
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """Plans with the same pipeline: the rows they are in, and the runs of stages they share."""

    rows: IntArray
    name: str
    num_stages: int
    interleave: int
    num_copies: int
    runs: tuple[Run, ...]

    @property
    def stage_run(self) -> tuple[int, ...]:
        """The run of every stage."""
        return tuple(index for index, run in enumerate(self.runs) for _ in range(run.num_stages))


def schedule_name(plan: Plan) -> str:
    """The plan's schedule; 1F1B of several chunks a stage is the interleaved one."""
    return "interleaved" if plan.schedule == "1f1b" and plan.interleave > 1 else plan.schedule


def alike(plans: Plans, rows: IntArray, runs: tuple[Run, ...]) -> Alike:
    """The plans in `rows`, which have the pipeline of the first of them."""
    plan = plans.plan(int(rows[0]))
    return Alike(
        rows=rows,
        name=schedule_name(plan),
        num_stages=plan.pipeline_parallel,
        interleave=plan.interleave,
        num_copies=plan.num_copies,
        runs=runs,
    )


def by_pipeline(graph: Graph, plans: Plans) -> Iterator[Alike]:
    """`plans`, whose layers are spread evenly, by the pipeline they have."""
    first, shape_of = distinct(plans.pipeline_parallel, plans.interleave, plans.schedule)
    for index, row in enumerate(first):
        plan = plans.plan(int(row))
        runs = even_runs(graph, plan.pipeline_parallel, plan.interleave, plan.schedule)
        yield alike(plans, np.flatnonzero(shape_of == index), runs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """What many plans for one model and cluster share."""

    graph: Graph
    plans: Plans
    cluster: Cluster
    precision: Precision
    places: Placements
    table: WorkTable
    num_microbatches: IntArray
    carried_bytes: FloatArray  # one microbatch's activations between two stages, one device's share, by cut
    transfer_of: IntArray
    transfer_s: FloatArray  # one hand-over between stages


def shared(
    graph: Graph, plans: Plans, cluster: Cluster, precision: Precision, *, is_broken_down: bool = True
) -> Shared:
    """Only time and energy can be said of plans whose work is not to be broken down."""
    places = placements_of(plans, cluster.topology)
    num_rows = NUM_ROWS if is_broken_down else NUM_TIMED
    table = work_table(graph, plans, places, cluster.chip, precision, cluster.num_devices, num_rows)
    carried_bytes = _carried_bytes(graph, table)
    cut, groups = table.cuts.of_plan, places.group_of
    first, transfer_of = distinct(cut, groups["pipeline"], groups["tensor"])
    link_frac = cluster.chip.calibration.link_frac
    return Shared(
        graph=graph,
        plans=plans,
        cluster=cluster,
        precision=precision,
        places=places,
        table=table,
        num_microbatches=graph.batch // (plans.data_parallel * plans.microbatch),
        carried_bytes=carried_bytes,
        transfer_of=transfer_of,
        transfer_s=_transfer_s(plans.at(first), carried_bytes[cut[first]], places.at(first), link_frac),
    )


def _carried_bytes(graph: Graph, table: WorkTable) -> FloatArray:
    layers = [block for block in graph.blocks if block.is_layer]
    elements, split = np.array([b.carried_elements for b in layers]), np.array([b.carried_split for b in layers])
    carried = local_elements(elements, split, table.cuts.degrees).max(axis=1) * dtype_bytes(graph.dtype)
    return np.asarray(carried, dtype=np.float64)


def _transfer_s(plans: Plans, carried_bytes: FloatArray, places: Placements, link_frac: float) -> FloatArray:
    """One hand-over between stages.

    Tensor ranks that all hold the same send a part each, over their own port, and gather the parts on the other
    side (Narayanan et al., SC 2021, section 4.1; DeepSpeed's pipeline does the same).
    """
    is_parted = ~plans.sequence_parallel & (plans.tensor_parallel > 1)
    num_parts = np.where(is_parted, plans.tensor_parallel, 1)
    part_s = exchanged_s("point-to-point", carried_bytes / num_parts, places, "pipeline", link_frac)
    gathered_bytes = np.where(is_parted, carried_bytes, 0.0)
    gather_s = exchanged_s("all-gather", gathered_bytes, places, "tensor", link_frac)
    return part_s + np.where(part_s > 0, gather_s, 0.0)


def exchanged_s(
    collective: str, whole_bytes: FloatArray, places: Placements, group_name: str, link_frac: float
) -> FloatArray:
    """Seconds of a collective of each plan within its group of that name."""
    total_s = np.zeros(len(whole_bytes))
    for group, chosen in by_group(places.groups, places.group_of[group_name]):
        total_s[chosen] = timed(collective, whole_bytes[chosen], group, link_frac)[0]
    return total_s


def by_stages(every: Shared, groups: list[Alike]) -> Iterator[tuple[Alike, StageColumns]]:
    """Every group with its stages; groups with the same runs share the work of a microbatch."""
    together: dict[tuple[Run, ...], list[Alike]] = {}
    for group in groups:
        together.setdefault(group.runs, []).append(group)
    for runs, some in together.items():
        rows = np.concatenate([group.rows for group in some])
        columns = stage_columns(every.table, runs, rows, every.graph, every.places, every.precision)
        start = 0
        for group in some:
            yield group, columns.of(slice(start, start + len(group.rows)))
            start += len(group.rows)


class Assembly:
    """One pipeline's plans: columns by plan, and by run of stages where they differ."""

    def __init__(self, every: Shared, same: Alike, columns: StageColumns) -> None:
        self.shared, self.same, self.columns = every, same, columns
        self.num_microbatches = every.num_microbatches[same.rows]
        self.num_passes = self.num_microbatches / same.num_copies
        self.is_beside = every.plans.overlaps("pipeline")[same.rows]
        self.transfer_s = every.transfer_s[every.transfer_of[same.rows]]
        pipe = (columns.work_of, self.num_microbatches, every.transfer_of[same.rows], self.is_beside)
        self.pipe_rows, self.pipe_of = distinct(*pipe)
        self.hidden_s, self.exposed_s = self._synced()
        self.synced_s = self.exposed_s.max(axis=1)
        self.tied_bytes, self.tied_s = self._tied()
        self.update_s = columns.update_s.max(axis=1)[columns.update_of]
        self.pipeline_s = self.pipeline_of(self.stage_times(is_transfer_free=False))
        self.step_s = self.pipeline_s + self.tied_s + self.synced_s + self.update_s

    def stage_times(self, *, is_transfer_free: bool) -> StageTimes:
        """Times of every stage of `pipe_rows`; transfers beside compute take no device's time, others are in it."""
        same, columns = self.same, self.columns
        transfer_s, is_beside = self.transfer_s[self.pipe_rows], self.is_beside[self.pipe_rows]
        paid_s = np.where(is_beside, 0.0, same.num_copies * same.interleave * transfer_s)[:, None]
        work = columns.work_of[self.pipe_rows]
        return StageTimes(
            forward_s=columns.forward_s[work] + paid_s,
            backward_s=columns.backward_s[work] + paid_s,
            weight_s=columns.put_off_s[work],
            transfer_s=np.where(is_beside & (not is_transfer_free), transfer_s, 0.0),
            stage_run=same.stage_run,
        )

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
        first_frac = np.array([(run.num_blocks - 1) / run.num_blocks for run in self.same.runs])
        may_hide = self.shared.plans.overlaps("data")[self.same.rows]
        share = np.where(may_hide, self.num_hiding, 0.0)[:, None] * first_frac
        behind_s = hidden_s(reduce_s, gather_s, room_s, share)
        return behind_s, reduce_s + gather_s - behind_s

    @property
    def num_hiding(self) -> FloatArray:
        """Microbatches behind which an exchange can hide.

        Gradients are whole with the last microbatch. Of interleaved chunks all but one have seen theirs while the
        other chunks of a round of microbatches, one a stage, still run.
        """
        rounds = np.minimum(self.same.num_stages, self.num_microbatches)
        return np.maximum(1.0, rounds * (self.same.interleave - 1) / self.same.interleave)

    def _tied(self) -> tuple[FloatArray, FloatArray]:
        """Bytes of gradients that two stages exchange once a step, and its seconds.

        Tied weights on the last stage and their owner on the first; and the two holders of a chunk, of its share where
        ZeRO cuts them.
        """
        every, same = self.shared, self.same
        tied_bytes = np.zeros(len(same.rows))
        if every.table.are_ties_apart[same.rows[0]]:
            tied = sum(part.count * every.table.elements[part.block].tied for part in same.runs[-1].parts)
            tied_bytes += every.precision.reduce_bytes * tied[every.table.cuts.of_plan[same.rows]]
        if same.num_copies > 1:
            plans = every.plans.at(same.rows)
            ranks = np.where(plans.zero_stage > 0, plans.data_parallel * plans.context_parallel, 1)
            plain, experts = held_elements(same.runs, every.graph, every.table, same.rows)
            most = (plain.gradients + experts.gradients).max(axis=1)
            tied_bytes += every.precision.reduce_bytes / ranks * most
        if not tied_bytes.any():
            return tied_bytes, tied_bytes
        link_frac = every.cluster.chip.calibration.link_frac
        places = every.places.at(same.rows)
        return tied_bytes, exchanged_s("point-to-point", tied_bytes, places, "pipeline", link_frac)

    def energy_j(self) -> FloatArray:
        """Energy of all devices: work done, bytes sent, and being on for the whole step."""
        every, columns, same = self.shared, self.columns, self.same
        energy, num_devices = every.cluster.chip.energy, every.cluster.num_devices
        num_replicas = num_devices / same.num_stages
        sizes = np.array([run.num_stages for run in same.runs], dtype=np.float64)
        link_j = energy.link_j_per_byte
        pass_j = ((columns.energy_j + link_j * columns.sent_bytes) @ sizes)[columns.work_of]
        once_j = (columns.update_j @ sizes)[columns.update_of]
        sent = (columns.exchange.sent_bytes @ sizes)[columns.exchange_of]
        sent = sent + 2 * self.tied_bytes  # first and last stage send each other theirs
        if same.num_stages > 1:
            carried_bytes = every.carried_bytes[every.table.cuts.of_plan[same.rows]]
            sent = sent + 2 * same.num_stages * same.interleave * self.num_microbatches * carried_bytes
        dynamic_j = num_replicas * (self.num_passes * pass_j + once_j + sent * link_j)
        return np.asarray(energy.idle_w * self.step_s * num_devices + dynamic_j)
