"""What the network rows of a block stand for: which collective, over which group, how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import FloatArray, IntArray, M, N, Ops
from dovetail.workload.operators import DTYPE_BYTES, code_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a network operator does: over which axis, in which group of a placement, by which collective.

    Of the context axis, where keys and values are gathered; `schedule.communication` has the other ways.
    """

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
