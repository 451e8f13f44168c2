"""Which products a layer saves when every second one is formed again."""

from __future__ import annotations

import numpy as np

from dovetail.columns import is_among
from dovetail.workload.graph import FloatArray, K, N, Ops, Phase
from dovetail.workload.operators import ATTENTION_CODES, code_of

_NUM_SIDE_BY_SIDE = {"qkv": 3, "kv": 2}  # weights that one product of ours holds, where others take one product each
AGAIN = ":again"  # ends the name of a row that runs a second time


def saved_frac(ops: Ops) -> FloatArray:
    """Share of each row's output that is kept when attention and every second product with a weight are.

    Products are counted weight by weight in the order they run: the first is kept, the second is not. So TorchTitan's
    selective checkpointing by operator goes (parallelisms/parallelize_llama.py, December 2024).
    """
    saved = np.zeros(len(ops))
    saved[is_among(ops.kind, ATTENTION_CODES) & (ops.phase == Phase.FORWARD)] = 1.0
    counted = 0
    for row in np.flatnonzero((ops.kind == code_of("linear")) & (ops.phase == Phase.FORWARD)):
        num_parts = num_weights(ops, int(row))
        is_kept = [(counted + index) % 2 == 0 for index in range(num_parts)]
        saved[row] = sum(is_kept) / num_parts
        counted += num_parts
    return saved


def num_weights(ops: Ops, row: int) -> int:
    """Weights side by side in one product: a gated feed-forward has two columns up for each one down."""
    name = ops.names[row]
    if name.endswith("_up"):
        down = name.removesuffix("_up") + "_down"
        after = (other for other in range(row + 1, len(ops)) if ops.names[other] == down)  # a latent's comes before
        return max((int(ops.extents[row, N]) // int(ops.extents[other, K]) for other in after), default=1)
    return _NUM_SIDE_BY_SIDE.get(name, 1)
