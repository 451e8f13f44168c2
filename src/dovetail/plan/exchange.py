"""What the network rows of a sharded block send: which collective, over which group, how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.hardware.topology import Group
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.workload.graph import M, N, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, OPERATORS, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One collective of one microbatch on one device.

    `payload_bytes` is the whole tensor as one rank sees it: the result of a gather, the input of a reduction or
    all-to-all.
    """

    axis: str
    collective: str
    payload_bytes: float
    phase: Phase
    group: Group


def exchanges(ops: Ops, plan: Plan, place: Placement) -> tuple[Exchange, ...]:
    """The collectives behind the network rows of `ops`, whose extents are one device's; none for groups of one."""
    found = []
    for row in np.flatnonzero(ops.unit == Unit.NETWORK):
        kind = OPERATORS[ops.kind[row]].name
        axis, collective, group, degree = _meaning(kind, plan, place)
        if not collective or degree == 1:
            continue
        # context gathers name the part each rank holds; all others the whole
        num_parts = degree if axis == "cp" else 1
        payload_bytes = float(ops.extents[row, M] * ops.extents[row, N] * DTYPE_BYTES[ops.dtype[row]] * num_parts)
        phase = Phase(int(ops.phase[row]))
        found.append(Exchange(axis=axis, collective=collective, payload_bytes=payload_bytes, phase=phase, group=group))
    return tuple(found)


def _meaning(kind: str, plan: Plan, place: Placement) -> tuple[str, str, Group, int]:
    """(axis, collective or '' when nothing moves, group, degree) of a network operator under `plan`."""
    opens, closes = ("all-gather", "reduce-scatter") if plan.sequence_parallel else ("", "all-reduce")
    tensor = ("tp", place.tensor, plan.tensor_parallel)
    expert_tensor = ("tp", place.expert_tensor, plan.expert_tensor_parallel)
    expert = ("ep", place.expert, plan.expert_parallel)
    context = ("cp", place.context, plan.context_parallel)
    meanings = {
        "gather": (opens, tensor),
        "reduce": (closes, tensor),
        "vocab_reduce": ("all-reduce", tensor),
        "expert_gather": (opens, expert_tensor),
        "expert_reduce": (closes, expert_tensor),
        "dispatch": ("all-to-all", expert),
        "combine": ("all-to-all", expert),
        "context_gather": ("all-gather", context),
        "context_reduce": ("reduce-scatter", context),
    }
    collective, (axis, group, degree) = meanings[kind]
    return axis, collective, group, degree
