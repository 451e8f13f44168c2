"""What the network rows of a sharded block send: which collective, over which group, how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.hardware.topology import Group, num_ranks
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.workload.graph import FloatArray, IntArray, K, M, N, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, OPERATORS, Unit, code_of


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
    num_copies: int = 1  # of each row, of which one crosses to each device or node that needs any


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a network operator does: over which axis, in which group of a placement, by which collective."""

    axis: str
    group: str
    unsharded: str  # collective without sequence parallelism; empty where nothing moves
    sharded: str  # and with it

    def collective(self, *, is_sequence_parallel: bool) -> str:
        return self.sharded if is_sequence_parallel else self.unsharded


MEANINGS = {
    "gather": Meaning(axis="tp", group="tensor", unsharded="", sharded="all-gather"),
    "reduce": Meaning(axis="tp", group="tensor", unsharded="all-reduce", sharded="reduce-scatter"),
    "vocab_reduce": Meaning(axis="tp", group="tensor", unsharded="all-reduce", sharded="all-reduce"),
    "expert_gather": Meaning(axis="tp", group="expert_tensor", unsharded="", sharded="all-gather"),
    "expert_reduce": Meaning(axis="tp", group="expert_tensor", unsharded="all-reduce", sharded="reduce-scatter"),
    "dispatch": Meaning(axis="ep", group="expert", unsharded="all-to-all", sharded="all-to-all"),
    "combine": Meaning(axis="ep", group="expert", unsharded="all-to-all", sharded="all-to-all"),
    "context_gather": Meaning(axis="cp", group="context", unsharded="all-gather", sharded="all-gather"),
    "context_reduce": Meaning(axis="cp", group="context", unsharded="reduce-scatter", sharded="reduce-scatter"),
}


def payload_bytes(ops: Ops, rows: IntArray, num_context_ranks: int | IntArray) -> FloatArray:
    """The whole tensor that each of the network `rows` moves, as one rank sees it.

    Context gathers name the part each rank holds; all others the whole.
    """
    is_part = np.isin(ops.kind[rows], [code_of(kind) for kind, meaning in MEANINGS.items() if meaning.axis == "cp"])
    whole = ops.extents[rows, M] * ops.extents[rows, N] * DTYPE_BYTES[ops.dtype[rows]]
    return np.asarray(whole * np.where(is_part, num_context_ranks, 1), dtype=np.float64)


def exchanges(ops: Ops, plan: Plan, place: Placement) -> tuple[Exchange, ...]:
    """The collectives behind the network rows of `ops`, whose extents are one device's; none for groups of one."""
    found = []
    rows = np.flatnonzero(ops.unit == Unit.NETWORK)
    for row, whole_bytes in zip(rows, payload_bytes(ops, rows, plan.context_parallel), strict=True):
        meaning = MEANINGS[OPERATORS[ops.kind[row]].name]
        collective = meaning.collective(is_sequence_parallel=plan.sequence_parallel)
        group: Group = getattr(place, meaning.group)
        if not collective or num_ranks(group) == 1:
            continue
        phase = Phase(int(ops.phase[row]))
        found.append(
            Exchange(
                axis=meaning.axis,
                collective=collective,
                payload_bytes=float(whole_bytes),
                phase=phase,
                group=group,
                num_copies=int(ops.extents[row, K]) if plan.sends_once and meaning.axis == "ep" else 1,
            )
        )
    return tuple(found)
