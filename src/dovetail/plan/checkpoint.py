"""What a checkpoint holds: weights and optimizer state of the whole model, each parameter's once."""

from __future__ import annotations

from dovetail.plan.block_elements import elements_of
from dovetail.plan.load import choices_of
from dovetail.plan.shard import Shard, Stage
from dovetail.plan.stage_elements import Owned, held_elements, is_owner_here
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision


def checkpoint_bytes(graph: Graph, precision: Precision) -> float:
    """Of the whole model: weights as they are kept, master weights and moments; gradients are made anew."""
    whole_bytes = graph.num_parameters * (precision.weight_bytes + precision.optimizer_bytes)
    if precision.entry.matrix_update is None:
        return whole_bytes
    for block in graph.blocks:
        held = elements_of(block, precision)
        matrices = sum(held.matrices) - held.tied_matrices
        factors = sum(held.factors) - held.tied_factors
        own_bytes = (precision.matrix_optimizer_bytes - precision.optimizer_bytes) * matrices
        whole_bytes += float(block.repeat * (own_bytes + precision.factor_bytes * factors))
    return whole_bytes


def device_checkpoint_bytes(pieces: Shard, precision: Precision) -> float:
    """What the fullest device saves, where all that hold the same parameters save equal shares of them.

    So do torch.distributed.checkpoint and Megatron-LM's fully parallel save.
    """
    return max(_saved_bytes(pieces, stage, precision, has_state=True) for stage in pieces.stages)


def copied_checkpoint_bytes(pieces: Shard, precision: Precision) -> float:
    """The part of it that is on the device: where the plan offloads the optimizer, its state is with the host."""
    has_state = not pieces.plan.offload_optimizer
    return max(_saved_bytes(pieces, stage, precision, has_state=has_state) for stage in pieces.stages)


def _saved_bytes(pieces: Shard, stage: Stage, precision: Precision, *, has_state: bool) -> float:
    blocks = [(piece.count, elements_of(piece.block, precision)) for piece in stage.pieces]
    has_owner = is_owner_here([piece.block.is_layer for piece in stage.pieces])
    chosen = choices_of(pieces.plan)

    def saved(held: Owned) -> float:
        plain, experts = held
        return float(plain / chosen.data_ranks + experts / chosen.expert_ranks)

    parameters = saved(held_elements(blocks, lambda block: block.parameters, has_owner=has_owner))
    if not has_state:
        return precision.weight_bytes * parameters
    saved_bytes = (precision.weight_bytes + precision.optimizer_bytes) * parameters
    if precision.entry.matrix_update is None:
        return saved_bytes
    matrices = held_elements(blocks, lambda b: b.matrices, has_owner=has_owner, tied=lambda b: b.tied_matrices)
    factors = held_elements(blocks, lambda b: b.factors, has_owner=has_owner, tied=lambda b: b.tied_factors)
    own_bytes = (precision.matrix_optimizer_bytes - precision.optimizer_bytes) * saved(matrices)
    return saved_bytes + own_bytes + precision.factor_bytes * saved(factors)
