"""What a checkpoint holds: weights and optimizer state of the whole model, each parameter's once."""

from __future__ import annotations

from dovetail.plan.layout import StageGroup
from dovetail.plan.sharding import ShardedPlan, held_elements, is_owner_here
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision


def checkpoint_bytes(graph: Graph, precision: Precision) -> float:
    """Of the whole model: weights as they are kept, master weights and moments; gradients are made anew."""
    return graph.num_parameters * (precision.weight_bytes + precision.optimizer_bytes)


def device_checkpoint_bytes(sharded: ShardedPlan, precision: Precision) -> float:
    """What the fullest device saves, where all that hold the same parameters save equal shares of them.

    So do torch.distributed.checkpoint and Megatron-LM's fully parallel save.
    """
    return (precision.weight_bytes + precision.optimizer_bytes) * _most_elements(sharded)


def copied_checkpoint_bytes(sharded: ShardedPlan, precision: Precision) -> float:
    """The part of it that is on the device: where the plan offloads the optimizer, its state is with the host."""
    optimizer_bytes = 0.0 if sharded.plan.offload_optimizer else precision.optimizer_bytes
    return (precision.weight_bytes + optimizer_bytes) * _most_elements(sharded)


def _most_elements(sharded: ShardedPlan) -> float:
    return max(_saved_elements(sharded, run) for run in sharded.runs)


def _saved_elements(sharded: ShardedPlan, run: StageGroup) -> float:
    """What a device of each stage of `run` saves."""
    blocks = [(span.count, sharded.table.elements[span.block].at(0)) for span in run.spans]
    has_owner = is_owner_here([sharded.graph.blocks[span.block].is_layer for span in run.spans])
    plain, experts = held_elements(blocks, lambda block: block.parameters, has_owner=has_owner)
    plan = sharded.plan
    return float(plain / (plan.data_parallel * plan.context_parallel) + experts / plan.expert_data_parallel)
