"""The whole training step in closed form: pipeline, gradient synchronisation, update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.topology import Group, num_ranks
from dovetail.network.collectives import collectives
from dovetail.network.volume import sent_bytes
from dovetail.plan.memory import gradient_elements, parameter_elements, sparse_elements, tied_elements
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.shard import Shard, Stage
from dovetail.schedule.pipelines import PipelineShape, StageTimes, pipelines
from dovetail.schedule.stage import stage_works
from dovetail.schedule.work import COMM_AXES, Comm, StageWork, Work
from dovetail.workload.operators import Unit
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where the time of one step goes, on a device of the slowest stage; the parts add up to `step_s`."""

    step_s: float
    compute_s: float  # recompute included
    recompute_s: float
    host_s: float  # waiting for the host to queue what the device would run sooner
    comm: tuple[Comm, ...]  # in COMM_AXES order
    bubble_s: float
    update_s: float
    slowest_stage: int
    limits_s: tuple[float, ...]  # compute_s by what it waits for, in cost.costs.LIMITS order
    clock_frac: float  # share of full clock that the power limit leaves the slowest stage
    energy_j: float  # of the whole cluster

    @property
    def exposed_s(self) -> float:
        return sum(comm.exposed_s for comm in self.comm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Gradient and parameter exchange that happens once a step."""

    comm: Comm
    sent_bytes: float


def training_step(shard: Shard, place: Placement, cluster: Cluster, precision: Precision) -> Step:
    """One step of `shard` on `cluster`, every assumption on overlap taken from the plan."""
    works = stage_works(_timed_only(shard), place, cluster.chip, precision)
    times = _stage_times(shard, place, cluster, works)
    pipeline_s, waits_s = _pipeline_s(shard, times)
    syncs = [
        _sync(stage, work, shard, place, precision, cluster) for stage, work in zip(shard.stages, works, strict=True)
    ]
    sync = max(syncs, key=lambda s: s.comm.exposed_s)
    update_s = max(work.update.compute_s for work in works)
    tied_s, tied_bytes = _tied(shard, place, cluster, precision)
    step_s = pipeline_s + tied_s + sync.comm.exposed_s + update_s
    slowest = int(np.argmax(times.forward + times.backward))
    num_passes = _num_passes(shard)
    busy = num_passes * (works[slowest].forward + works[slowest].backward)
    comms = [num_passes * comm for comm in works[slowest].comm]
    once = {"dp": sync.comm, "pp": _transfers(shard, place, cluster, waits_s) + Comm(exposed_s=tied_s)}
    return Step(
        step_s=step_s,
        compute_s=busy.cost.compute_s,
        recompute_s=busy.recompute_s,
        host_s=num_passes * works[slowest].host_wait_s,
        comm=tuple(comm + once.get(axis, Comm()) for axis, comm in zip(COMM_AXES, comms, strict=True)),
        bubble_s=pipeline_s - waits_s - num_passes * float(times.pace_s),
        update_s=update_s,
        slowest_stage=slowest,
        limits_s=busy.limits_s,
        clock_frac=works[slowest].clock_frac,
        energy_j=_energy_j(shard, works, syncs, tied_bytes, cluster, step_s),
    )


def _timed_only(shard: Shard) -> Shard:
    """`shard`, if every choice of its plan has a time: memory knows what is offloaded to the host, time does not."""
    plan = shard.plan
    if plan.offload_optimizer or plan.offload_activations_frac:
        label = "offload_optimizer" if plan.offload_optimizer else "offload_activations_frac"
        raise NotModelled("the time of offloading to the host is not modelled; leave it out", label)
    return shard


def _pipeline_s(shard: Shard, times: StageTimes) -> tuple[float, float]:
    """The pipeline from its first to its last pass, and how much shorter it were if transfers took no time."""
    step_s, shape = pipelines[schedule_name(shard.plan)].step_s, pipeline_shape(shard)
    pipeline_s = float(step_s(times, shape))
    return pipeline_s, pipeline_s - float(step_s(replace(times, transfer_s=0.0), shape))


def _stage_times(shard: Shard, place: Placement, cluster: Cluster, works: tuple[StageWork, ...]) -> StageTimes:
    """What each stage takes for a microbatch; transfers beside compute take no device's time, others are part of it."""
    transfer_s = _transfer_s(shard, place, cluster)
    paid_s = 0.0 if shard.plan.overlap.pipeline else shard.plan.num_copies * shard.plan.interleave * transfer_s
    return StageTimes(
        forward_s=[work.forward.time_s + paid_s for work in works],
        backward_s=[work.backward.time_s + paid_s for work in works],
        weight_s=[work.put_off_s for work in works],
        transfer_s=transfer_s if shard.plan.overlap.pipeline else 0.0,
    )


def _transfer_s(shard: Shard, place: Placement, cluster: Cluster) -> float:
    return collectives["point-to-point"](shard.carried_bytes, place.pipeline, cluster.chip.calibration.link_frac)


def _transfers(shard: Shard, place: Placement, cluster: Cluster, waits_s: float) -> Comm:
    """What a device sends on in a step, exposed or hidden; beside compute, all but what others must wait for."""
    sent_s = 2 * shard.num_microbatches * shard.plan.interleave * _transfer_s(shard, place, cluster)
    if shard.plan.overlap.pipeline:
        return Comm(exposed_s=waits_s, hidden_s=max(0.0, sent_s - waits_s))
    return Comm(exposed_s=sent_s)


def _num_passes(shard: Shard) -> float:
    """How often a stage runs all that it holds: every microbatch, or each copy of the model its share of them."""
    return shard.num_microbatches / shard.plan.num_copies


def _tied(shard: Shard, place: Placement, cluster: Cluster, precision: Precision) -> tuple[float, float]:
    """Seconds that stages exchange gradients of what two of them hold, and the bytes that all stages send for it."""
    tied_bytes, mirrored_bytes = _tied_bytes(shard, precision), _mirrored_bytes(shard, precision)
    link_frac = cluster.chip.calibration.link_frac
    tied_s = _timed("point-to-point", tied_bytes + max(mirrored_bytes), place.pipeline, link_frac)[0]
    return tied_s, 2 * tied_bytes + sum(mirrored_bytes)  # first and last stage send each other tied ones


def _tied_bytes(shard: Shard, precision: Precision) -> float:
    """Gradients that tied weights on the last stage and their owner on the first exchange once a step."""
    homes = shard.plan.chunk_stages
    if set(homes[0]) == set(homes[-1]):
        return 0.0
    return precision.reduce_bytes * sum(p.count * tied_elements(p.block) for p in shard.stages[-1].pieces)


def _mirrored_bytes(shard: Shard, precision: Precision) -> tuple[float, ...]:
    """By stage: gradients that the two holders of its chunks exchange once a step, their share where ZeRO cuts them."""
    if shard.plan.num_copies == 1:
        return (0.0,)
    ranks = shard.plan.data_parallel * shard.plan.context_parallel if shard.plan.zero_stage else 1
    return tuple(precision.reduce_bytes / ranks * sum(gradient_elements(stage)) for stage in shard.stages)


def schedule_name(plan: Plan) -> str:
    """The plan's schedule; 1F1B of several chunks a stage is the interleaved one."""
    return "interleaved" if plan.schedule == "1f1b" and plan.interleave > 1 else plan.schedule


def check_schedule(plan: Plan, num_microbatches: int) -> None:
    """Raises `InvalidInput` with the rule that the plan breaks where its schedule cannot run so."""
    try:
        pipeline = pipelines[schedule_name(plan)]
    except InvalidInput as unknown:
        raise InvalidInput(unknown.message, "schedule") from None
    shape = PipelineShape(
        num_stages=plan.pipeline_parallel, num_microbatches=num_microbatches, interleave=plan.interleave
    )
    if rule := pipeline.problem(shape):
        raise InvalidInput(f"schedule {schedule_name(plan)} {rule}", "schedule")


def pipeline_shape(shard: Shard) -> PipelineShape:
    plan = shard.plan
    return PipelineShape(
        num_stages=plan.pipeline_parallel, num_microbatches=shard.num_microbatches, interleave=plan.interleave
    )


def _sync(
    stage: Stage, work: StageWork, shard: Shard, place: Placement, precision: Precision, cluster: Cluster
) -> Sync:
    """Once a step: reduce gradients over the ranks that hold the same parameters; ZeRO-1 and 2 then gather weights.

    ZeRO-2 and 3 reduce with every microbatch (see `stage`). What overlaps hides behind one microbatch: reductions
    behind its backward pass, gathers behind the next forward pass, all but the block that starts them.
    """
    plan, link_frac = shard.plan, cluster.chip.calibration.link_frac
    reduce_s = gather_s = total_bytes = 0.0
    for owned, dense, sparse, group in _synced(stage, place):
        moves = []
        if plan.zero_stage < 2:
            reduction = "reduce-scatter" if plan.zero_stage == 1 else "all-reduce"
            # ranks look up different rows of a table: their gradients are gathered, not summed in place
            moves = [(reduction, dense), ("all-gather", sparse * num_ranks(group))]
        timed = [_timed(move, elements * precision.reduce_bytes, group, link_frac) for move, elements in moves]
        reduce_s += sum(seconds for seconds, _ in timed)
        if plan.zero_stage in (1, 2):
            timed.append(_timed("all-gather", owned * precision.gather_bytes, group, link_frac))
            gather_s += timed[-1][0]
        total_bytes += sum(sent for _, sent in timed)
    num_blocks = sum(piece.count for piece in stage.pieces)
    share = (num_blocks - 1) / num_blocks if plan.overlap.data else 0.0
    hidden_s = min(reduce_s, share * _free_s(work.backward)) + min(gather_s, share * _free_s(work.forward))
    return Sync(comm=Comm(exposed_s=reduce_s + gather_s - hidden_s, hidden_s=hidden_s), sent_bytes=total_bytes)


def _synced(stage: Stage, place: Placement) -> Iterator[tuple[float, float, float, Group]]:
    """Ordinary and expert parameters: how many, their dense and sparse gradients, and who holds the same."""
    parameters, gradients, sparse = parameter_elements(stage), gradient_elements(stage), sparse_elements(stage)
    groups = (place.data, place.expert_data)
    for owned, changed, looked_up, group in zip(parameters, gradients, sparse, groups, strict=True):
        yield owned, changed - looked_up, looked_up, group


def _free_s(work: Work) -> float:
    """Compute, or waiting for the host, behind which nothing is hidden yet."""
    return max(0.0, work.cost.compute_s + work.host_wait_s - sum(comm.hidden_s for comm in work.comm))


def _timed(collective: str, payload_bytes: float, group: Group, link_frac: float) -> tuple[float, float]:
    """Seconds of a collective, and the bytes it makes each rank send."""
    if not payload_bytes or num_ranks(group) == 1:
        return 0.0, 0.0
    sent = sent_bytes(collective, payload_bytes, num_ranks(group))
    return collectives[collective](payload_bytes, group, link_frac), sent


def _energy_j(
    shard: Shard,
    works: tuple[StageWork, ...],
    syncs: list[Sync],
    tied_bytes: float,
    cluster: Cluster,
    step_s: float,
) -> float:
    """Energy of all devices: work done, bytes sent, and being on for the whole step."""
    energy = cluster.chip.energy
    num_replicas = cluster.num_devices / len(works)
    total_j = energy.idle_w * step_s * cluster.num_devices
    total_j += num_replicas * tied_bytes * energy.link_j_per_byte
    for work, sync in zip(works, syncs, strict=True):
        once = work.forward + work.backward
        carried = 2 * shard.num_microbatches * shard.plan.interleave * _carried_bytes(shard)
        sent = _num_passes(shard) * once.sent_bytes + carried + sync.sent_bytes
        dynamic_j = _num_passes(shard) * once.cost.energy_j + work.update.energy_j + sent * energy.link_j_per_byte
        total_j += num_replicas * dynamic_j
    return total_j


def _carried_bytes(shard: Shard) -> float:
    return shard.carried_bytes if shard.plan.pipeline_parallel > 1 else 0.0


def executed_flop(shard: Shard) -> float:
    """FLOP that the tensor units of all devices do in a step: recompute and repeated work in, masked scores out."""
    num_replicas = shard.plan.num_devices / shard.plan.pipeline_parallel
    once = 0.0
    for stage in shard.stages:
        for piece in stage.pieces:
            ops = piece.block.ops
            once += piece.count * float(ops.flop[ops.unit == Unit.TENSOR].sum())
    return num_replicas * _num_passes(shard) * once
