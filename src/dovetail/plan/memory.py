"""What one device of each stage holds at its fullest moment, kind by kind, in bytes.

Stages are assembled from what one repeat of each block holds (`plan.block_memory`) and what is held of parameters
(`plan.parameter_memory`); shapes of tensors do not come in here. Of one plan or of many: every amount may be an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.plan.block_memory import BlockMemory
from dovetail.plan.load import Held, Load, stage_load, stage_loads
from dovetail.plan.parameter_memory import (
    bucket_bytes,
    held_bytes,
    largest_of,
    optimizer_state_bytes,
    parameter_buffers_bytes,
    unborn_bytes,
    update_workspace_bytes,
    widened_gradient_bytes,
)
from dovetail.plan.plan import Plan
from dovetail.plan.plans import Plans
from dovetail.plan.shard import Shard, Stage
from dovetail.units import MEBI, Amount
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.optimizer import Precision

# Reserved over allocated is 1.03 to 1.09 in 15 configurations of SimuMax v1.2's B200 logs, 1.05 in the mean.
ALLOCATOR_RESERVE_FRAC = 0.05
# What a process holds outside the allocator, measured on one H200 with PyTorch 2.11, CUDA 13 and NCCL: 767 MiB for
# context and kernels after a transformer layer and its update, 556 MiB for the first communicator, 389 for each more.
CONTEXT_BYTES = 767 * MEBI
FIRST_COMMUNICATOR_BYTES = 556 * MEBI
COMMUNICATOR_BYTES = 389 * MEBI
NUM_OFFLOADED_IN_TRANSIT = 2  # layers whose offloaded activations are on their way: one used, one moved beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Memory of one device of one stage at its peak.

    `activations_bytes` are kept from forward to backward; `buffers_bytes` are what passes: recomputed layers,
    logits and their gradients, gathered parameters, communication buckets. Stated apart: `stranded_bytes`, free at the
    peak but held by the allocator in blocks that nothing then fits into, and `host_bytes`, what the plan offloads.
    Every amount may be an array: then this is a stage of as many plans.
    """

    stage: int
    weights_bytes: Amount
    gradients_bytes: Amount
    optimizer_bytes: Amount
    activations_bytes: Amount
    buffers_bytes: Amount
    stranded_bytes: Amount = 0.0
    host_bytes: Amount = 0.0

    @property
    def total_bytes(self) -> Amount:
        state_bytes = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return state_bytes + self.activations_bytes + self.buffers_bytes

    @property
    def reserve_bytes(self) -> Amount:
        """What the allocator holds beside what is in use at the peak."""
        return self.stranded_bytes + ALLOCATOR_RESERVE_FRAC * (self.total_bytes + self.stranded_bytes)

    @property
    def reserved_bytes(self) -> Amount:
        return self.total_bytes + self.reserve_bytes


def stage_memory(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> StageMemory:
    """Peak memory of a device of `stage` that keeps `in_flight` microbatches of activations at once."""
    return _fullest(stage_load(shard, stage, precision, in_flight), precision)


def stage_memories(shard: Shard, precision: Precision, in_flight: Sequence[float]) -> tuple[StageMemory, ...]:
    """As `stage_memory`, of every stage."""
    return tuple(_fullest(load, precision) for load in stage_loads(shard, precision, in_flight))


def _fullest(load: Load, precision: Precision) -> StageMemory:
    return max(_moments(load, precision), key=lambda memory: memory.reserved_bytes)


def moments(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> tuple[StageMemory, ...]:
    """The moments of a step of which one is its peak, of one plan; see `load_moments`."""
    return _moments(stage_load(shard, stage, precision, in_flight), precision)


def _moments(load: Load, precision: Precision) -> tuple[StageMemory, ...]:
    return tuple(_of_one_plan(memory) for memory in load_moments(load, precision))


def _of_one_plan(memory: StageMemory) -> StageMemory:
    amounts = {f.name: float(getattr(memory, f.name)) for f in fields(memory) if f.name != "stage"}
    return StageMemory(stage=memory.stage, **amounts)


def peak_bytes(load: Load, precision: Precision) -> Amount:
    """What the allocator holds at the fullest moment."""
    return largest_of([memory.reserved_bytes for memory in load_moments(load, precision)])


def load_moments(load: Load, precision: Precision) -> tuple[StageMemory, ...]:
    """The four moments of a step of which one is its peak.

    The backward pass begins: all activations held, gradients only if they stand from step to step. It reaches the last
    layer, whose activations it holds, and the gradients of all others. It ends in the embedding, all gradients held.
    The update runs: gradients narrower than the master weights are widened first, and products of it need room.
    """
    states = _state_bytes(load, precision)
    standing_bytes = parameter_buffers_bytes(load, precision) + _framework_bytes(load, precision)
    kept, offloaded, in_transit = _activations_bytes(load, load.chosen.offload_activations_frac)
    passing, gone = _passing_bytes(load.memories)
    widened_bytes = widened_gradient_bytes(load, precision)
    last = next((memory for memory in load.memories if memory.is_layer), load.memories[0])
    begin = replace(
        states,
        gradients_bytes=states.gradients_bytes if precision.are_gradients_standing else 0.0,
        activations_bytes=kept - gone,
        buffers_bytes=passing + in_transit + standing_bytes,
        stranded_bytes=_stranded_bytes(load, precision, widened_bytes),
        host_bytes=states.host_bytes + offloaded,
    )
    end = replace(begin, gradients_bytes=states.gradients_bytes, activations_bytes=0.0)
    return (
        begin,
        replace(
            end,
            gradients_bytes=states.gradients_bytes - unborn_bytes(load, precision),
            activations_bytes=last.kept_bytes,
            buffers_bytes=last.passing_bytes + standing_bytes,
        ),
        replace(end, buffers_bytes=load.memories[0].passing_bytes + standing_bytes),
        replace(states, buffers_bytes=widened_bytes + update_workspace_bytes(load), host_bytes=begin.host_bytes),
    )


def _state_bytes(load: Load, precision: Precision) -> StageMemory:
    """What is held of every parameter: ZeRO-1 shards optimizer state, 2 gradients too, 3 weights too.

    Offloaded, the optimizer's state is the host's, and so are the update, its buffers and a copy of the gradients.
    """
    optimizer_bytes = optimizer_state_bytes(load.chosen, load.parameters, load.matrices, load.factors, precision)
    copied_bytes = held_bytes(load.chosen, load.gradients, precision.reduce_bytes, 1)
    is_offloaded = load.chosen.offload_optimizer
    return StageMemory(
        stage=load.stage,
        weights_bytes=held_bytes(load.chosen, load.parameters, precision.weight_bytes, 3),
        gradients_bytes=held_bytes(load.chosen, load.gradients, precision.gradient_bytes, 2),
        optimizer_bytes=0.0 if is_offloaded else optimizer_bytes,
        activations_bytes=0.0,
        buffers_bytes=0.0,
        host_bytes=optimizer_bytes + copied_bytes if is_offloaded else 0.0,
    )


def _passing_bytes(memories: tuple[BlockMemory, ...]) -> tuple[Amount, Amount]:
    """What passes while the layers' activations are all held, and what of those is gone by then.

    The loss comes first, and what it kept is free when the layers are reached. An embedding comes last.
    """
    if not any(memory.is_loss or memory.is_layer for memory in memories):
        return memories[0].passing_bytes, 0.0
    loss = sum(memory.kept_bytes for memory in memories if memory.is_loss)
    in_loss = largest_of([memory.passing_bytes for memory in memories if memory.is_loss])
    in_layers = largest_of([memory.passing_bytes for memory in memories if memory.is_layer])
    is_in_loss = in_loss + loss >= in_layers
    return np.where(is_in_loss, in_loss, in_layers), np.where(is_in_loss, 0.0, loss)


def _stranded_bytes(load: Load, precision: Precision, widened_bytes: Amount) -> Amount:
    """Free at the peak, in blocks of the allocator that nothing then fits into."""
    stranded = largest_of([memory.stranded_bytes for memory in load.memories])
    if not load.chosen.framework.strands_update_buffers:
        return stranded
    return stranded + widened_bytes + bucket_bytes(load, precision)


def _activations_bytes(load: Load, offloaded_frac: Amount) -> tuple[Amount, Amount, Amount]:
    """Kept on the device, kept on the host, and on the way between them. Only layers' are offloaded.

    The loss is left as soon as it is entered: its activations are never held twice.
    """
    layers = sum(_kept_bytes(piece) for piece in load.pieces if piece.memory.is_layer) * load.in_flight
    others = sum(
        _kept_bytes(piece) * (1.0 if piece.memory.is_loss else load.in_flight)
        for piece in load.pieces
        if not piece.memory.is_layer
    )
    offloaded = offloaded_frac * layers
    largest = largest_of([memory.kept_bytes for memory in load.memories if memory.is_layer])
    in_transit = np.minimum(NUM_OFFLOADED_IN_TRANSIT * offloaded_frac * largest, offloaded)
    return layers - offloaded + others, offloaded, in_transit


def _kept_bytes(piece: Held) -> Amount:
    return piece.count * piece.memory.kept_bytes


def _framework_bytes(load: Load, precision: Precision) -> Amount:
    """What the plan's framework stands on the device: placeholder gradients, and tensors on a stage's borders."""
    framework = load.chosen.framework
    placeholders = _placeholder_elements(load.memories) * dtype_bytes(precision.storage)
    num_outputs = load.in_flight * load.chosen.interleave if framework.keeps_stage_outputs and not load.is_last else 0.0
    num_buffers = framework.num_boundary_buffers + framework.num_boundary_buffers_per_microbatch * load.num_microbatches
    return placeholders + np.where(
        load.chosen.pipeline_parallel > 1, (num_outputs + num_buffers) * load.carried_bytes, 0.0
    )


def _placeholder_elements(memories: tuple[BlockMemory, ...]) -> Amount:
    """An unused gradient for each shape of weight in the layers: weights of one shape share theirs."""
    shapes = np.concatenate([memory.placeholders for memory in memories], axis=-2)
    elements: Amount = 0.0
    for weight in range(shapes.shape[-2]):
        shape = shapes[..., weight, :]
        is_shared = (shapes[..., :weight, :] == shape[..., None, :]).all(axis=-1).any(axis=-1)
        elements = elements + np.where(is_shared, 0.0, shape.prod(axis=-1))
    return elements


def runtime_bytes(plan: Plan | Plans) -> Amount:
    """What a process holds besides its tensors: context, kernels, and a communicator for each group it is in."""
    degrees = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel, plan.pipeline_parallel)
    num_groups = sum(np.where(degree > 1, 1, 0) for degree in (*degrees, plan.expert_parallel))
    is_alone = plan.num_devices == 1
    return CONTEXT_BYTES + np.where(is_alone, 0.0, FIRST_COMMUNICATOR_BYTES + num_groups * COMMUNICATOR_BYTES)
