"""Which collective a network operator of a block is, over which group of ranks, and its payload in bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import FloatArray, IntArray, M, N, Ops
from dovetail.workload.operators import DTYPE_BYTES, code_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCollective:
    """The collective of a network operator: its parallelism axis, its group in a placement, its name.

    On the context axis this is the gather of keys and values; `step.communication` has ring and all-to-all.
    """

    axis: str
    group: str
    unsharded: str  # collective without sequence parallelism; empty where nothing moves
    sharded: str  # and with it

    def collective(self, *, is_sequence_parallel: bool) -> str:
        return self.sharded if is_sequence_parallel else self.unsharded


OP_COLLECTIVES = {
    "gather": OpCollective(axis="tp", group="tensor", unsharded="", sharded="all-gather"),
    "reduce": OpCollective(axis="tp", group="tensor", unsharded="all-reduce", sharded="reduce-scatter"),
    "vocab_reduce": OpCollective(axis="tp", group="tensor", unsharded="all-reduce", sharded="all-reduce"),
    "expert_gather": OpCollective(axis="tp", group="expert_tensor", unsharded="", sharded="all-gather"),
    "expert_reduce": OpCollective(axis="tp", group="expert_tensor", unsharded="all-reduce", sharded="reduce-scatter"),
    "dispatch": OpCollective(axis="ep", group="expert", unsharded="all-to-all", sharded="all-to-all"),
    "combine": OpCollective(axis="ep", group="expert", unsharded="all-to-all", sharded="all-to-all"),
    "context_gather": OpCollective(axis="cp", group="context", unsharded="all-gather", sharded="all-gather"),
    "context_reduce": OpCollective(axis="cp", group="context", unsharded="reduce-scatter", sharded="reduce-scatter"),
}


def op_payload_bytes(ops: Ops, rows: IntArray, num_context_ranks: int | IntArray) -> FloatArray:
    """Payload of the collective of each of the network `rows`: the larger of a rank's two buffers, as in nccl-tests.

    The extents of context gathers are of the part that each rank holds; those of all others are the whole tensor.
    """
    is_context = np.isin(ops.kind[rows], [code_of(kind) for kind, each in OP_COLLECTIVES.items() if each.axis == "cp"])
    named_bytes = ops.extents[rows, M] * ops.extents[rows, N] * DTYPE_BYTES[ops.dtype[rows]]
    return np.asarray(named_bytes * np.where(is_context, num_context_ranks, 1), dtype=np.float64)
