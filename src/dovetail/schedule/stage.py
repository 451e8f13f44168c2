"""One stage, one microbatch: compute by direction, and communication by axis, exposed or hidden behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dovetail.cost.cost import Cost
from dovetail.cost.costs import LIMITS, OpCosts, op_costs
from dovetail.cost.power import Load, at_clock, sustained_clock_frac
from dovetail.hardware.chip import Chip
from dovetail.hardware.topology import num_ranks
from dovetail.network.collectives import collectives
from dovetail.network.volume import sent_bytes
from dovetail.plan.exchange import Exchange, exchanges
from dovetail.plan.memory import block_gradients, block_parameters, tied_elements
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.shard import Piece, Shard, Stage
from dovetail.schedule.work import COMM_AXES, StageWork, Work
from dovetail.workload.graph import Axis, Ops, Phase
from dovetail.workload.optimizer import Precision


def stage_works(shard: Shard, place: Placement, chip: Chip, precision: Precision) -> tuple[StageWork, ...]:
    """Work of every stage; blocks that stages share are costed once."""
    known: dict[int, StageWork] = {}
    for stage in shard.stages:
        for piece in stage.pieces:
            if id(piece.block) not in known:
                known[id(piece.block)] = _block_work(piece, shard.plan, place, chip, precision)
    return tuple(_sustained(_entered(_sum_pieces(stage, known), chip), chip) for stage in shard.stages)


def _entered(work: StageWork, chip: Chip) -> StageWork:
    """The stage with what the host takes to enter each of its passes."""
    calibration = chip.calibration
    calls_s = (calibration.host_call_s, calibration.host_backward_s)
    forward, backward = (
        replace(way, cost=replace(way.cost, host_s=way.cost.host_s + call_s))
        for way, call_s in zip((work.forward, work.backward), calls_s, strict=True)
    )
    return replace(work, forward=forward, backward=backward)


def _sustained(work: StageWork, chip: Chip) -> StageWork:
    """The stage at the clock that microbatch after microbatch leaves it."""
    clock_frac = sustained_clock_frac(work, chip)
    return StageWork(
        forward=work.forward.at_clock(clock_frac),
        backward=work.backward.at_clock(clock_frac),
        update=at_clock(work.update, sustained_clock_frac(Load(cost=work.update), chip)),
        clock_frac=clock_frac,
    )


def _sum_pieces(stage: Stage, known: dict[int, StageWork]) -> StageWork:
    forward, backward, update = Work(), Work(), Cost()
    for piece in stage.pieces:
        work = known[id(piece.block)]
        forward = forward + piece.count * work.forward
        backward = backward + piece.count * work.backward
        update = update + piece.count * work.update
    return StageWork(forward=forward, backward=backward, update=update)


def _block_work(piece: Piece, plan: Plan, place: Placement, chip: Chip, precision: Precision) -> StageWork:
    ops = piece.block.ops
    costs = op_costs(ops, chip)
    sends = (*exchanges(ops, plan, place), *_parameter_exchanges(piece, plan, place, precision))

    def work(phases: tuple[Phase, ...]) -> Work:
        return _work(ops, costs, [send for send in sends if send.phase in phases], phases, plan, chip)

    backward = work((Phase.INPUT_GRAD, Phase.WEIGHT_GRAD, Phase.RECOMPUTE))
    if bool(np.any((ops.phase == Phase.RECOMPUTE) & ~ops.is_fused)):
        rerun_s = backward.cost.host_s + chip.calibration.host_rerun_s
        backward = replace(backward, cost=replace(backward.cost, host_s=rerun_s))
    return StageWork(
        forward=work((Phase.FORWARD,)),
        backward=backward,
        update=costs.total(ops.phase == Phase.UPDATE),
    )


def _work(ops: Ops, costs: OpCosts, sends: list[Exchange], phases: tuple[Phase, ...], plan: Plan, chip: Chip) -> Work:
    """One direction of one block: the rows of `phases` and what they send."""
    rows = np.isin(ops.phase, phases)
    cost = costs.total(rows)
    is_expert = np.any(ops.splits & int(Axis.EXPERT | Axis.EXPERT_DATA), axis=1)
    waiting_s, beside_s, total_bytes = _communication(sends, plan, chip)
    limits_s = np.bincount(costs.limit[rows], weights=costs.compute_s[rows], minlength=len(LIMITS))
    return Work(
        cost=cost,
        core=costs.total(rows & ops.is_core),
        experts=costs.total(rows & is_expert),
        waiting_s=waiting_s,
        beside_s=beside_s,
        sent_bytes=total_bytes,
        recompute_s=float(costs.compute_s[rows & (ops.phase == Phase.RECOMPUTE)].sum()),
        weight_s=float(costs.compute_s[rows & (ops.phase == Phase.WEIGHT_GRAD)].sum()),
        limits_s=tuple(float(s) for s in limits_s),
    )


def _communication(
    sends: Iterable[Exchange], plan: Plan, chip: Chip
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Seconds of communication by axis that compute waits for and that may run beside it, and bytes sent."""
    waiting = dict.fromkeys(COMM_AXES, 0.0)
    beside = dict.fromkeys(COMM_AXES, 0.0)
    total_bytes = 0.0
    for send in sends:
        time_s = collectives[send.collective](send.payload_bytes, send.group, chip.calibration.link_frac)
        (beside if _may_overlap(send, plan) else waiting)[send.axis] += time_s
        total_bytes += sent_bytes(send.collective, send.payload_bytes, num_ranks(send.group))
    return tuple(waiting.values()), tuple(beside.values()), total_bytes


def _may_overlap(send: Exchange, plan: Plan) -> bool:
    """The plan's assumption; gathers for weight gradients run beside the input gradient in any case."""
    flags = {"tp": plan.overlap.tensor, "cp": plan.overlap.context, "ep": plan.overlap.expert, "dp": plan.overlap.data}
    return flags[send.axis] or (send.axis == "tp" and send.phase == Phase.WEIGHT_GRAD)


def _parameter_exchanges(piece: Piece, plan: Plan, place: Placement, precision: Precision) -> list[Exchange]:
    """ZeRO-2 and 3: what every microbatch gathers of a block's parameters and reduces of its gradients."""
    sends: list[Exchange] = []
    if plan.zero_stage < 2:
        return sends
    parameters, gradients = block_parameters(piece.block), block_gradients(piece.block)
    if plan.pipeline_parallel == 1:  # the owner of tied weights is on this stage too, and exchanges them
        tied = tied_elements(piece.block)
        parameters, gradients = (parameters[0] - tied, parameters[1]), (gradients[0] - tied, gradients[1])
    for elements, changed, group in zip(parameters, gradients, (place.data, place.expert_data), strict=True):
        if not elements or num_ranks(group) == 1:
            continue
        moves = [("reduce-scatter", changed * precision.reduce_bytes, Phase.WEIGHT_GRAD)]
        if plan.zero_stage == 3:
            whole_bytes = elements * precision.gather_bytes
            moves += [("all-gather", whole_bytes, Phase.FORWARD), ("all-gather", whole_bytes, Phase.INPUT_GRAD)]
        for collective, payload_bytes, phase in moves:
            sends.append(
                Exchange(axis="dp", collective=collective, payload_bytes=payload_bytes, phase=phase, group=group)
            )
    return sends
