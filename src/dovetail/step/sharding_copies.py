"""Copies that frameworks make beside the collectives of ZeRO-2 and 3: gathered parameters out, gradients in.

FSDP2 gathers the parameters of a layer into one buffer and copies each out of it, in the forward and in the backward
pass, and copies gradients into the buffer that is reduced (`split_with_sizes_copy` and `_chunk_cat` of
torch/distributed/fsdp/_fully_shard). FSDP1's parameters are views of the gathered buffer, whose gradients autograd
concatenates. These kernels run between the layer's own, so that nothing hides them. `parallel.frameworks` says who
copies what. Casts of a rank's own shard before the gather are 1/n of this, and left out.

Rates are those of a plain copy kernel, times what was measured of these kernels on an H200, on the layers of Llama 3 8B
and 70B over 8 and 64 ranks: 3.7 to 3.9 TB/s out of what is gathered where a copy has 4.3, and 1.4 to 2.3 TB/s from bf16
into fp32 where it has 3.8 (benchmarks/data/h200_narrow.csv).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.columns import distinct
from dovetail.cost.op_cost import LIMITS, OpCosts
from dovetail.hardware.topology import num_ranks
from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.sharding import BlockElements, ShardedPlans
from dovetail.step.communication import CommVariants
from dovetail.step.work import COSTS, NUM_ROWS, ROWS
from dovetail.workload.graph import Axis, FloatArray, Ops, Phase
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.optimizer import Precision
from dovetail.workload.rows import Row, rows_to_ops

GATHERED, REDUCED = COPIES = ("copy gathered weights", "copy gradients to reduce")
_OWNERS = ("data", "expert_data")  # groups that ordinary parameters and those of experts are sharded over
_BY_PASS = ((True, False), (True, True))  # which of COPIES the forward and the backward pass make
_LEAST_STAGE = (3, 2)  # of ZeRO, from which on each of COPIES is made
_HBM = LIMITS.index("hbm")
COPIED_FRAC, WIDENED_FRAC = 0.90, 0.50  # of a copy kernel's rate, as it is and to wider elements: measured, see above
_BY_BYTES = {1.0: "fp8", 2.0: "bf16", 4.0: "fp32"}  # style: dtypes that an element of so many bytes is copied as


def priced_copies(
    sharded: ShardedPlans, precision: Precision, costs_of: Callable[[Ops], OpCosts], many: tuple[int, ...] = ()
) -> FloatArray:
    """Cost of each copy of one repeat of each block, on one chip (`many` empty) or on many.

    Rows are those of COSTS, by chips if many, by blocks, by COPIES, by owners (ordinary parameters and experts), by
    whether tied weights lie apart, by cuts. There are no blocks where the plans' framework copies nothing.
    """
    framework = frameworks[sharded.plans.framework]
    makes = (framework.copies_gathered, framework.copies_reduced)
    num_blocks = len(sharded.elements) if any(makes) else 0
    shape = (num_blocks, len(COPIES), len(_OWNERS), 2, len(sharded.cuts))
    if not num_blocks:
        return np.zeros((len(COSTS), *many, *shape))
    elements = np.stack([_elements(block, len(sharded.cuts)) for block in sharded.elements])
    elements = elements * np.array(makes)[:, None, None, None]
    # cuts by pipeline and data parallelism alone hold the same: each size is priced once
    first, size_of = distinct(np.indices(shape)[1].ravel(), np.rint(elements).astype(np.int64).ravel())
    moves, counts = np.indices(shape)[1].ravel()[first].tolist(), elements.ravel()[first].tolist()
    ops = rows_to_ops([_copy(move, round(count), precision) for move, count in zip(moves, counts, strict=True)])
    costs = costs_of(ops)
    columns = np.stack([getattr(costs, name) for name in COSTS])
    columns[COSTS.index("compute_s")] /= np.where(ops.side_bytes_per_element > 0, WIDENED_FRAC, COPIED_FRAC)
    return np.where(elements > 0, columns[..., size_of].reshape(len(COSTS), *many, *shape), 0.0)


def _elements(held: BlockElements, num_cuts: int) -> FloatArray:
    """Parameters that are gathered and gradients that are reduced, by owners, by whether ties lie apart, by cuts."""
    found = np.zeros((len(COPIES), len(_OWNERS), 2, num_cuts))
    pairs = ((held.plain, held.plain_gradients), (held.experts, held.expert_gradients))
    for owner, moved in enumerate(pairs):
        for move, amount in enumerate(moved):
            # weights tied to those of a block on the same stage are moved by that block
            tied = np.asarray(held.tied) if owner == 0 else 0.0
            found[move, owner, 0] = np.maximum(0.0, amount - tied)
            found[move, owner, 1] = amount
    return found


def _copy(move: int, num_elements: int, precision: Precision) -> Row:
    """One copy: a read and a write of what is gathered, or of gradients as they are left and as they are reduced."""
    read_bytes = written_bytes = precision.gather_bytes
    if move == COPIES.index(REDUCED):
        read_bytes, written_bytes = dtype_bytes(precision.storage), precision.reduce_bytes
        if precision.has_autocast_weights:  # cast on their way back to the dtype of their weights, reduced after a cast
            read_bytes = written_bytes = precision.weight_bytes
    nothing = (1, Axis.NONE)
    return Row(
        name=COPIES[move],
        kind="copy",
        inputs=(),
        extents=(nothing, (max(1, num_elements), Axis.NONE), nothing, nothing, nothing),
        dtype=_BY_BYTES[read_bytes],
        phase=Phase.WEIGHT_GRAD if move == COPIES.index(REDUCED) else Phase.FORWARD,
        side_bytes_per_element=written_bytes - read_bytes,
    )


def block_copies(priced: FloatArray, block: int, variants: CommVariants) -> FloatArray:
    """Of `priced`, what the variants make of one repeat of a block: passes by COPIES by rows of COSTS, chips, variants.

    Where ranks share nothing, nothing is gathered or reduced, and nothing is copied.
    """
    ranks = np.array([num_ranks(group) for group in variants.groups])
    is_shared = np.stack([ranks[variants.group_of[name]] > 1 for name in _OWNERS])  # owners by variants
    is_made = variants.zero_stage >= np.array(_LEAST_STAGE)[:, None]  # COPIES by variants
    of_block = priced[..., block, :, :, :, :][..., variants.are_ties_apart.astype(np.int64), variants.cut]
    by_move = np.where(is_shared, of_block, 0.0).sum(axis=-2) * is_made
    return np.asarray(
        np.array(_BY_PASS, dtype=float)[:, :, *(None,) * (by_move.ndim - 1)] * np.moveaxis(by_move, -2, 0)
    )


def add_copies(works: Sequence[FloatArray], priced: FloatArray, variants: CommVariants) -> None:
    """Adds copies to the work of each block: directions by rows, by chips if many, by variants by policies."""
    if not priced.size:
        return
    for block, work in enumerate(works):
        for direction, copied in zip(work, block_copies(priced, block, variants).sum(axis=1), strict=True):
            for row, amount in zip(ROWS["cost"], copied, strict=True):
                if row < len(direction):
                    direction[row] += amount[..., None]
            if len(direction) == NUM_ROWS:
                direction[ROWS["limits_s"][_HBM]] += copied[COSTS.index("compute_s")][..., None]
