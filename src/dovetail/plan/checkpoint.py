"""What a checkpoint holds: weights and optimizer state of the whole model, each parameter's once."""

from __future__ import annotations

from dovetail.plan.block_elements import elements_of
from dovetail.plan.load import choices_of
from dovetail.plan.shard import Shard, Stage
from dovetail.plan.stage_elements import held_elements, is_owner_here
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision


def checkpoint_bytes(graph: Graph, precision: Precision) -> float:
    """Of the whole model: weights as they are kept, master weights and moments; gradients are made anew."""
    return graph.num_parameters * (precision.weight_bytes + precision.optimizer_bytes)


def device_checkpoint_bytes(pieces: Shard, precision: Precision) -> float:
    """What the fullest device saves, where all that hold the same parameters save equal shares of them.

    So do torch.distributed.checkpoint and Megatron-LM's fully parallel save.
    """
    return (precision.weight_bytes + precision.optimizer_bytes) * _most_elements(pieces)


def copied_checkpoint_bytes(pieces: Shard, precision: Precision) -> float:
    """The part of it that is on the device: where the plan offloads the optimizer, its state is with the host."""
    optimizer_bytes = 0.0 if pieces.plan.offload_optimizer else precision.optimizer_bytes
    return (precision.weight_bytes + optimizer_bytes) * _most_elements(pieces)


def _most_elements(pieces: Shard) -> float:
    return max(_saved_elements(pieces, stage) for stage in pieces.stages)


def _saved_elements(pieces: Shard, stage: Stage) -> float:
    blocks = [(piece.count, elements_of(piece.block)) for piece in stage.pieces]
    has_owner = is_owner_here([piece.block.is_layer for piece in stage.pieces])
    plain, experts = held_elements(blocks, lambda block: block.parameters, has_owner=has_owner)
    chosen = choices_of(pieces.plan)
    return float(plain / chosen.data_ranks + experts / chosen.expert_ranks)
