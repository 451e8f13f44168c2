"""One stage, one microbatch: compute by direction, and communication by axis, exposed or hidden behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dovetail.cost.cost import Cost
from dovetail.cost.roofline import LIMITS, OpCosts, op_costs
from dovetail.hardware.chip import Chip
from dovetail.hardware.topology import num_ranks
from dovetail.network.collectives import collectives
from dovetail.network.volume import sent_bytes
from dovetail.plan.exchange import Exchange, exchanges
from dovetail.plan.memory import block_gradients, block_parameters, tied_elements
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.shard import Piece, Shard, Stage
from dovetail.workload.graph import Axis, Ops, Phase
from dovetail.workload.optimizer import Precision

COMM_AXES = ("tp", "cp", "ep", "dp", "pp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comm:
    """Seconds of communication of one axis: what compute waits for, and what runs beside it."""

    exposed_s: float = 0.0
    hidden_s: float = 0.0

    def __add__(self, other: Comm) -> Comm:
        return Comm(exposed_s=self.exposed_s + other.exposed_s, hidden_s=self.hidden_s + other.hidden_s)

    def __mul__(self, num_repeats: float) -> Comm:
        return Comm(exposed_s=num_repeats * self.exposed_s, hidden_s=num_repeats * self.hidden_s)

    __rmul__ = __mul__


NOTHING = Cost()
NO_COMM = (Comm(),) * len(COMM_AXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One direction of one microbatch: compute, communication by axis (in COMM_AXES order), bytes sent."""

    cost: Cost = NOTHING
    comm: tuple[Comm, ...] = NO_COMM
    sent_bytes: float = 0.0
    recompute_s: float = 0.0  # part of the compute that is recompute
    limits_s: tuple[float, ...] = (0.0,) * len(LIMITS)  # compute time by what it waits for

    @property
    def time_s(self) -> float:
        return self.cost.compute_s + sum(comm.exposed_s for comm in self.comm)

    def __add__(self, other: Work) -> Work:
        return Work(
            cost=self.cost + other.cost,
            comm=tuple(a + b for a, b in zip(self.comm, other.comm, strict=True)),
            sent_bytes=self.sent_bytes + other.sent_bytes,
            recompute_s=self.recompute_s + other.recompute_s,
            limits_s=tuple(a + b for a, b in zip(self.limits_s, other.limits_s, strict=True)),
        )

    def __mul__(self, num_repeats: float) -> Work:
        return Work(
            cost=num_repeats * self.cost,
            comm=tuple(num_repeats * comm for comm in self.comm),
            sent_bytes=num_repeats * self.sent_bytes,
            recompute_s=num_repeats * self.recompute_s,
            limits_s=tuple(num_repeats * limit for limit in self.limits_s),
        )

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """One microbatch through one stage, and the update at the end of the step."""

    forward: Work
    backward: Work
    update: Cost


def stage_works(shard: Shard, place: Placement, chip: Chip, precision: Precision) -> tuple[StageWork, ...]:
    """Work of every stage; blocks that stages share are costed once."""
    known: dict[int, StageWork] = {}
    for stage in shard.stages:
        for piece in stage.pieces:
            if id(piece.block) not in known:
                known[id(piece.block)] = _block_work(piece, shard.plan, place, chip, precision)
    return tuple(_sum_pieces(stage, known) for stage in shard.stages)


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

    return StageWork(
        forward=work((Phase.FORWARD,)),
        backward=work((Phase.INPUT_GRAD, Phase.WEIGHT_GRAD, Phase.RECOMPUTE)),
        update=costs.total(ops.phase == Phase.UPDATE),
    )


def _work(ops: Ops, costs: OpCosts, sends: list[Exchange], phases: tuple[Phase, ...], plan: Plan, chip: Chip) -> Work:
    """One direction of one block: the rows of `phases` and what they send."""
    rows = np.isin(ops.phase, phases)
    cost = costs.total(rows)
    is_expert = np.any(ops.splits & int(Axis.EXPERT | Axis.EXPERT_DATA), axis=1)
    windows_s = {
        "all": cost.compute_s,
        "cp": float(costs.compute_s[rows & ops.is_core].sum()),
        "ep": float(costs.compute_s[rows & is_expert].sum()),
    }
    comm, total_bytes = _communication(sends, windows_s, plan, chip)
    limits_s = np.bincount(costs.limit[rows], weights=costs.compute_s[rows], minlength=len(LIMITS))
    return Work(
        cost=cost,
        comm=comm,
        sent_bytes=total_bytes,
        recompute_s=float(costs.compute_s[rows & (ops.phase == Phase.RECOMPUTE)].sum()),
        limits_s=tuple(float(s) for s in limits_s),
    )


def _communication(
    sends: Iterable[Exchange], windows_s: dict[str, float], plan: Plan, chip: Chip
) -> tuple[tuple[Comm, ...], float]:
    """Splits communication into exposed and hidden.

    What may overlap hides behind the compute it belongs to until that is full: context exchange behind attention,
    expert exchange behind experts, and the rest behind whatever compute is then left.
    """
    waiting = dict.fromkeys(COMM_AXES, 0.0)
    beside = dict.fromkeys(COMM_AXES, 0.0)
    total_bytes = 0.0
    for send in sends:
        time_s = collectives[send.collective](send.payload_bytes, send.group, chip.calibration.link_frac)
        (beside if _may_overlap(send, plan) else waiting)[send.axis] += time_s
        total_bytes += sent_bytes(send.collective, send.payload_bytes, num_ranks(send.group))
    hidden = {axis: min(beside[axis], windows_s[axis]) for axis in ("cp", "ep")}
    left_s = windows_s["all"] - sum(hidden.values())
    rest_s = sum(beside[axis] for axis in COMM_AXES if axis not in hidden)
    hidden_frac = min(1.0, left_s / rest_s) if rest_s > 0 else 0.0
    hidden |= {axis: beside[axis] * hidden_frac for axis in COMM_AXES if axis not in hidden}
    comm = tuple(
        Comm(exposed_s=waiting[axis] + beside[axis] - hidden[axis], hidden_s=hidden[axis]) for axis in COMM_AXES
    )
    return comm, total_bytes


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
