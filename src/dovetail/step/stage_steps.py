"""Where the time of one step goes on a device of every stage, and when each stage runs what."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.step.assembly import Assembly
from dovetail.step.hops import num_kinds, sending_kinds
from dovetail.step.pipeline_events import Timeline, played
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.step.step import assembly_of, copies, transfers
from dovetail.step.work import COMM_AXES, Comm
from dovetail.units import Amount
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision

MOST_PLAYED = 200_000  # style: a count; some 4 s and 400 MB of passes played out
_TIMES = ("forward_s", "backward_s", "weight_s", "transfer_s")  # of StageTimes: arrays of plans


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStep:
    """Where the time of a step goes on a device of `num_stages` stages alike, from `first_stage` on.

    The parts add up to the step: `idle_s` is the bubble, and waiting for stages that exchange or update longer.
    """

    first_stage: int
    num_stages: int
    compute_s: float  # recompute included
    recompute_s: float
    host_s: float
    comm: tuple[Comm, ...]  # in COMM_AXES order
    offload: Comm
    update_s: float
    idle_s: float

    @property
    def label(self) -> str:
        last = self.first_stage + self.num_stages - 1
        return str(self.first_stage) if self.num_stages == 1 else f"{self.first_stage}-{last}"


def stage_steps(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> tuple[StageStep, ...]:
    """Of every run of stages alike, in order; of the slowest one it is what `training_step` tells."""
    assembly = assembly_of(graph, plan, cluster, precision)
    return tuple(_stage_step(assembly, run) for run in range(len(assembly.group.runs)))


def _stage_step(assembly: Assembly, run: int) -> StageStep:
    columns, m = assembly.columns, float(assembly.num_passes[0])
    works, cell = columns.works, (columns.work_of, np.array([run]))

    def of_run(amount: Amount) -> float:
        return m * float(np.broadcast_to(amount, columns.forward_s.shape)[cell][0])

    compute_s = of_run(works.forward.cost.compute_s + works.backward.cost.compute_s)
    per_step = _comm_per_step(assembly, run)
    comm = tuple(
        Comm(exposed_s=of_run(each.exposed_s), hidden_s=of_run(each.hidden_s)) + per_step.get(axis, Comm())
        for axis, each in zip(COMM_AXES, works.comm, strict=True)
    )
    offload = _single(copies(assembly, np.array([run])))
    host_s = of_run(works.host_wait_s)
    update_s = float(columns.update_s[columns.update_of, run][0])
    busy_s = compute_s + host_s + sum(each.exposed_s for each in comm) + offload.exposed_s + update_s
    stage_group = assembly.group.runs[run]
    return StageStep(
        first_stage=stage_group.first_stage,
        num_stages=stage_group.num_stages,
        compute_s=compute_s,
        recompute_s=of_run(works.forward.recompute_s + works.backward.recompute_s),
        host_s=host_s,
        comm=comm,
        offload=offload,
        update_s=update_s,
        idle_s=max(0.0, float(assembly.step_s[0]) - busy_s),
    )


def _comm_per_step(assembly: Assembly, run: int) -> dict[str, Comm]:
    """By axis: what a device of `run` exchanges once a step; tied weights are the first and the last stage's."""
    waits_s = assembly.pipeline_s - assembly.pipeline_of(assembly.stage_times(is_transfer_free=True))
    handed = _single(transfers(assembly, waits_s, np.array([run])))
    is_end = run in (0, len(assembly.group.runs) - 1) or assembly.group.num_copies > 1
    return {
        "dp": Comm(exposed_s=float(assembly.exposed_s[0, run]), hidden_s=float(assembly.hidden_s[0, run])),
        "pp": handed + Comm(exposed_s=float(assembly.tied_s[0]) if is_end else 0.0),
    }


def _single(comm: Comm) -> Comm:
    return Comm(exposed_s=float(comm.exposed_s[0]), hidden_s=float(comm.hidden_s[0]))


def handed_over_s(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> tuple[float, ...]:
    """Seconds of a step in which stages hand over to their neighbours, in either direction, by where that is.

    Of each pool of the cluster, and last between pools: of the stage that sends most there. Tied weights are not in it.
    """
    assembly = assembly_of(graph, plan, cluster, precision)
    group, stage_pool = assembly.group, assembly.group.stage_pool or (0,) * assembly.group.num_stages
    if len(stage_pool) == 1:
        return (0.0,) * num_kinds(stage_pool)
    directions = sending_kinds(stage_pool, goes_round=group.name == "interleaved")
    kinds = np.stack(directions[:1] if assembly.is_forward_only else directions)
    count = float(assembly.num_microbatches[0]) * group.interleave
    hops_s = assembly.transfer_s[0].reshape(-1)
    places = range(num_kinds(stage_pool))
    return tuple(
        count * float(hops_s[min(kind, len(hops_s) - 1)]) * int((kinds == kind).sum(axis=0).max()) for kind in places
    )


def num_played(graph: Graph, plan: Plan) -> int:
    """Microbatches of all pieces of all stages: what is played out pass by pass."""
    return plan.pipeline_parallel * plan.interleave * (graph.batch // (plan.data_parallel * plan.microbatch))


def step_timeline(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> Timeline:
    """Every pass of every stage of one step, played out; what is exchanged once a step and the update come after."""
    if (count := num_played(graph, plan)) > MOST_PLAYED:
        message = (
            f"a timeline is played pass by pass, at most {MOST_PLAYED:,} microbatches of all stages; got {count:,}"
        )
        raise InvalidInput(f"{message}; take a larger microbatch, fewer stages or a smaller global_batch")
    assembly = assembly_of(graph, plan, cluster, precision)
    shape = PipelineShape(
        num_stages=assembly.group.num_stages,
        num_microbatches=int(assembly.num_microbatches[0]),
        interleave=assembly.group.interleave,
    )
    order = pipelines[assembly.group.name].order(shape)
    times = assembly.stage_times(is_transfer_free=False)
    single = replace(times, **{name: np.asarray(getattr(times, name))[0] for name in _TIMES})
    return played(order, single.chunk_times(order))
