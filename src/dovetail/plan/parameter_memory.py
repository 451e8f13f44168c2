"""What a device holds of its parameters: weights, gradients, optimizer state, and buffers they pass through.

Replicas and ZeRO come in here. Of one plan or of many: every amount may be an array, one value a plan.
"""

from __future__ import annotations

import numpy as np

from dovetail.plan.load import Choices, Load
from dovetail.plan.stage_elements import Owned
from dovetail.units import Amount
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.optimizer import Precision

MASTER_BYTES = 4.0  # master weights and the gradients that update them are fp32
UPDATE_PRODUCT_BYTES = dtype_bytes("bf16")  # products of an update are taken in bf16 (`workload.training`)
NUM_PREFETCHED_BLOCKS = 2  # ZeRO-3 holds the block in use and the next one whole (FSDP's default prefetch)
REDUCE_BUCKET_ELEMENTS = 40_000_000  # gradients reduced at a time: Megatron-LM's default bucket, max(40 M, 1 M x dp)


def held_bytes(chosen: Choices, elements: Owned, bytes_per_parameter: float, from_zero_stage: int) -> Amount:
    """One device's share of something kept per (ordinary, expert) parameter that a ZeRO stage begins to shard."""
    plain, experts = elements
    is_sharded = chosen.zero_stage >= from_zero_stage
    share = plain / np.where(is_sharded, chosen.data_ranks, 1)
    if np.any(experts):
        share = share + experts / np.where(is_sharded, chosen.expert_ranks, 1)
    return bytes_per_parameter * share


def optimizer_state_bytes(
    chosen: Choices, parameters: Owned, matrices: Owned, factors: Owned, precision: Precision
) -> Amount:
    """One device's share of the optimizer's state, master weights included: ZeRO-1 begins to shard it.

    Of `parameters` those in `matrices`, with so many rows and columns in all (`factors`), are kept in a way of their
    own by some optimizers.
    """
    kept_bytes = held_bytes(chosen, parameters, precision.optimizer_bytes, 1)
    own_bytes = precision.matrix_optimizer_bytes - precision.optimizer_bytes
    if own_bytes:
        kept_bytes = kept_bytes + held_bytes(chosen, matrices, own_bytes, 1)
    if precision.factor_bytes:
        kept_bytes = kept_bytes + held_bytes(chosen, factors, precision.factor_bytes, 1)
    return kept_bytes


def unborn_bytes(load: Load, precision: Precision) -> Amount:
    """Gradients that are not there yet when the backward pass reaches its last layer: its own and the embedding's."""
    layer = next((piece for piece in load.pieces if piece.memory.is_layer), None)
    if precision.are_gradients_standing or layer is None:
        return 0.0
    before = load.pieces[0]
    blocks = (layer,) if before.memory.is_layer else (layer, before)
    plain, experts = (sum(block.elements.gradients[owner] for block in blocks) for owner in (0, 1))
    return held_bytes(load.chosen, (plain, experts), precision.gradient_bytes, 2)


def bucket_bytes(load: Load, precision: Precision) -> Amount:
    """A bucket that gradients are reduced in and one that sharded parameters are gathered in, as frameworks size it."""
    bucket_elements = load.chosen.framework.bucket_elements
    gradients = np.minimum(bucket_elements, sum(load.gradients)) * precision.reduce_bytes
    parameters = np.minimum(bucket_elements, sum(load.parameters)) * precision.gather_bytes
    return gradients + np.where(load.chosen.zero_stage > 0, parameters, 0.0)


def widened_gradient_bytes(load: Load, precision: Precision) -> Amount:
    """fp32 copies of the gradients whose state is updated here, where gradients are kept in less."""
    if not precision.has_master_weights or precision.reduce_bytes >= MASTER_BYTES or load.chosen.offload_optimizer:
        return 0.0
    is_twice = load.chosen.framework.widens_by_tensor & (load.chosen.zero_stage == 0)
    return held_bytes(load.chosen, load.gradients, MASTER_BYTES, 1) * np.where(is_twice, 2.0, 1.0)


def update_workspace_bytes(load: Load) -> Amount:
    """Operands and result of the largest product of the update: matrices are updated one after another."""
    return largest_of([piece.elements.workspace for piece in load.pieces]) * UPDATE_PRODUCT_BYTES


def parameter_buffers_bytes(load: Load, precision: Precision) -> Amount:
    """Parameters gathered whole and gradients on their way; ZeRO-2: one bucket."""
    bucket = np.minimum(REDUCE_BUCKET_ELEMENTS, sum(load.gradients)) * precision.reduce_bytes
    gathered = np.where(load.chosen.zero_stage == 3, _gathered_bytes(load, precision), bucket)
    is_alone = load.chosen.data_ranks == 1
    return np.where((load.chosen.zero_stage < 2) | is_alone, 0.0, gathered)


def _gathered_bytes(load: Load, precision: Precision) -> Amount:
    """ZeRO-3, as FSDP2 does it: embedding and head stay gathered (its root group), and of the layers the one in use
    and the next; never more than the stage has. Gradients of the largest block are in the buffer they are reduced
    from, and as products left them unless they were added to ones that stand. Some frameworks gather a pipeline's
    stages whole and sum their gradients so.
    """
    whole = sum(load.parameters)
    sizes = [(sum(piece.elements.parameters), piece.memory.is_layer) for piece in load.pieces]
    root = sum(size for size, is_layer in sizes if not is_layer)
    layer = largest_of([size for size, is_layer in sizes if is_layer])
    gathered = np.minimum(root + NUM_PREFETCHED_BLOCKS * layer, whole)
    unreduced_bytes = 0.0 if precision.are_gradients_standing else dtype_bytes(precision.storage)
    largest = largest_of([size for size, _ in sizes])
    by_block = gathered * precision.gather_bytes + largest * (unreduced_bytes + precision.reduce_bytes)
    if not load.chosen.framework.gathers_stages_whole:
        return by_block
    by_stage = whole * (precision.gather_bytes + precision.reduce_bytes)
    return np.where(load.chosen.pipeline_parallel > 1, by_stage, by_block)


def largest_of(amounts: list[Amount]) -> Amount:
    """The largest, plan by plan; nothing if there are none."""
    largest: Amount = amounts[0] if amounts else 0.0
    for amount in amounts[1:]:
        largest = np.maximum(largest, amount)
    return largest
