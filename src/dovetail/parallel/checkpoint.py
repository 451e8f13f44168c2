"""What a checkpoint holds: weights and optimizer state of the whole model, each parameter's once."""

from __future__ import annotations

from dovetail.parallel.layout import StageGroup
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import Owned, ShardedPlan, held_elements, is_owner_here, shard
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision


def checkpoint_bytes(graph: Graph, precision: Precision) -> float:
    """Of the whole model: weights as they are kept, master weights and moments; gradients are made again."""
    total_bytes = graph.num_parameters * precision.weight_bytes + graph.num_trained * precision.optimizer_bytes
    if precision.entry.matrix_update is None:
        return total_bytes
    elements = shard(graph, Plan()).table.updated_elements(precision.entry)
    for block, by_cut in zip(graph.blocks, elements, strict=True):
        held = by_cut.at(0)
        matrices = sum(held.matrices) - held.tied_matrices
        factors = sum(held.factors) - held.tied_factors
        own_bytes = (precision.matrix_optimizer_bytes - precision.optimizer_bytes) * matrices
        total_bytes += float(block.repeat * (own_bytes + precision.factor_bytes * factors))
    return total_bytes


def device_checkpoint_bytes(sharded: ShardedPlan, precision: Precision) -> float:
    """What the fullest device saves, where all that hold the same parameters save equal shares of them.

    So do torch.distributed.checkpoint and Megatron-LM's fully parallel save.
    """
    return max(_saved_bytes(sharded, run, precision, has_state=True) for run in sharded.runs)


def copied_checkpoint_bytes(sharded: ShardedPlan, precision: Precision) -> float:
    """The part of it that is on the device: where the plan offloads the optimizer, its state is with the host."""
    has_state = not sharded.plan.offload_optimizer
    return max(_saved_bytes(sharded, run, precision, has_state=has_state) for run in sharded.runs)


def _saved_bytes(sharded: ShardedPlan, run: StageGroup, precision: Precision, *, has_state: bool) -> float:
    """What a device of each stage of `run` saves."""
    plan, elements = sharded.plan, sharded.table.updated_elements(precision.entry)
    blocks = [(span.count, elements[span.block].at(0)) for span in run.spans]
    has_owner = is_owner_here([sharded.graph.blocks[span.block].is_layer for span in run.spans])

    def saved(held: Owned) -> float:
        plain, experts = held
        return float(plain / (plan.data_parallel * plan.context_parallel) + experts / plan.expert_data_parallel)

    parameters = saved(held_elements(blocks, lambda block: block.parameters, has_owner=has_owner))
    if not has_state:
        return precision.weight_bytes * parameters
    trained = saved(
        held_elements(
            blocks,
            lambda block: block.trained,
            has_owner=has_owner,
            tied=lambda block: block.tied - block.tied_frozen,
        )
    )
    saved_bytes = precision.weight_bytes * parameters + precision.optimizer_bytes * trained
    if precision.entry.matrix_update is None:
        return saved_bytes
    matrices = held_elements(blocks, lambda b: b.matrices, has_owner=has_owner, tied=lambda b: b.tied_matrices)
    factors = held_elements(blocks, lambda b: b.factors, has_owner=has_owner, tied=lambda b: b.tied_factors)
    own_bytes = (precision.matrix_optimizer_bytes - precision.optimizer_bytes) * saved(matrices)
    return saved_bytes + own_bytes + precision.factor_bytes * saved(factors)
