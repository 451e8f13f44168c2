"""What one device of each stage holds at its fullest moment, kind by kind, in bytes.

Stages are assembled from what one repeat of each block holds (`plan.block_memory`): layers and microbatches in flight,
replicas and ZeRO come in here, shapes of tensors do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.plan.block_memory import (
    BlockMemory,
    block_gradients,
    block_memory,
    block_parameters,
    kept_bytes,
    tied_elements,
)
from dovetail.plan.frameworks import frameworks
from dovetail.plan.plan import Plan
from dovetail.plan.shard import Shard, Stage
from dovetail.plan.stage_elements import gradient_elements, parameter_elements, sparse_elements
from dovetail.units import MEBI
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.optimizer import Precision

__all__ = [
    "StageMemory",
    "block_gradients",
    "block_parameters",
    "gradient_elements",
    "kept_bytes",
    "moments",
    "parameter_elements",
    "runtime_bytes",
    "sparse_elements",
    "stage_memory",
    "tied_elements",
]

# Reserved over allocated is 1.03 to 1.09 in 15 configurations of SimuMax v1.2's B200 logs, 1.05 in the mean.
ALLOCATOR_RESERVE_FRAC = 0.05
# What a process holds outside the allocator, measured on one H200 with PyTorch 2.11, CUDA 13 and NCCL: 767 MiB for
# context and kernels after a transformer layer and its update, 556 MiB for the first communicator, 389 for each more.
CONTEXT_BYTES = 767 * MEBI
FIRST_COMMUNICATOR_BYTES = 556 * MEBI
COMMUNICATOR_BYTES = 389 * MEBI
MASTER_BYTES = 4.0  # master weights and the gradients that update them are fp32
NUM_PREFETCHED_BLOCKS = 2  # ZeRO-3 holds the block in use and the next one whole (FSDP's default prefetch)
REDUCE_BUCKET_ELEMENTS = 40_000_000  # gradients reduced at a time: Megatron-LM's default bucket, max(40 M, 1 M x dp)
NUM_OFFLOADED_IN_TRANSIT = 2  # layers whose offloaded activations are on their way: one used, one moved beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Memory of one device of one stage at its peak.

    `activations_bytes` are kept from forward to backward; `buffers_bytes` are what passes: recomputed layers,
    logits and their gradients, gathered parameters, communication buckets. Stated apart: `stranded_bytes`, free at the
    peak but held by the allocator in blocks that nothing then fits into, and `host_bytes`, what the plan offloads.
    """

    stage: int
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    buffers_bytes: float
    stranded_bytes: float = 0.0
    host_bytes: float = 0.0

    @property
    def total_bytes(self) -> float:
        state_bytes = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return state_bytes + self.activations_bytes + self.buffers_bytes

    @property
    def reserve_bytes(self) -> float:
        """What the allocator holds beside what is in use at the peak."""
        return self.stranded_bytes + ALLOCATOR_RESERVE_FRAC * (self.total_bytes + self.stranded_bytes)

    @property
    def reserved_bytes(self) -> float:
        return self.total_bytes + self.reserve_bytes


def stage_memory(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> StageMemory:
    """Peak memory of a device of `stage` that keeps `in_flight` microbatches of activations at once."""
    return max(moments(shard, stage, precision, in_flight), key=lambda memory: memory.reserved_bytes)


def moments(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> tuple[StageMemory, ...]:
    """The four moments of a step of which one is its peak.

    The backward pass begins: all activations held, gradients only if they stand from step to step. It reaches the last
    layer, whose activations it holds, and the gradients of all others. It ends in the embedding, all gradients held.
    The update runs: gradients narrower than the master weights are widened first.
    """
    tables = _tables(shard, stage, precision)
    counts = tuple(piece.count for piece in stage.pieces)
    states = _state_bytes(shard, stage, precision)
    standing_bytes = _parameter_buffers_bytes(shard, stage, precision)
    standing_bytes += _framework_bytes(shard, stage, tables, in_flight)
    kept, offloaded, in_transit = _activations_bytes(tables, counts, in_flight, shard.plan.offload_activations_frac)
    passing, gone = _passing_bytes(tables)
    last = next((table for table in tables if table.is_layer), tables[0])
    begin = replace(
        states,
        gradients_bytes=states.gradients_bytes if precision.are_gradients_standing else 0.0,
        activations_bytes=kept - gone,
        buffers_bytes=passing + in_transit + standing_bytes,
        stranded_bytes=_stranded_bytes(shard, stage, tables, precision),
        host_bytes=states.host_bytes + offloaded,
    )
    end = replace(begin, gradients_bytes=states.gradients_bytes, activations_bytes=0.0)
    return (
        begin,
        replace(
            end,
            gradients_bytes=states.gradients_bytes - _unborn_bytes(shard, stage, precision),
            activations_bytes=last.kept_bytes,
            buffers_bytes=last.passing_bytes + standing_bytes,
        ),
        replace(end, buffers_bytes=tables[0].passing_bytes + standing_bytes),
        replace(states, buffers_bytes=_widened_gradient_bytes(shard, stage, precision)),
    )


def _unborn_bytes(shard: Shard, stage: Stage, precision: Precision) -> float:
    """Gradients that are not there yet when the backward pass reaches its last layer: its own and the embedding's."""
    if precision.are_gradients_standing:
        return 0.0
    layer = next((piece.block for piece in stage.pieces if piece.block.is_layer), None)
    before = stage.pieces[0].block
    blocks = [block for block in (layer, None if before.is_layer else before) if block is not None]
    plain, experts = (sum(block_gradients(block)[owner] for block in blocks) for owner in (0, 1))
    return _held_bytes(shard, (plain, experts), precision.gradient_bytes, 2) if layer is not None else 0.0


def _tables(shard: Shard, stage: Stage, precision: Precision) -> tuple[BlockMemory, ...]:
    """What one repeat of each piece holds."""
    plan = shard.plan
    framework, is_vocab_cut = frameworks[plan.framework], plan.tensor_parallel > 1
    return tuple(
        block_memory(piece.block, piece.recompute, precision, framework, is_vocab_cut=is_vocab_cut)
        for piece in stage.pieces
    )


def _passing_bytes(tables: tuple[BlockMemory, ...]) -> tuple[float, float]:
    """What passes while the layers' activations are all held, and what of those is gone by then.

    The loss comes first, and what it kept is free when the layers are reached. An embedding comes last.
    """
    loss = sum(table.kept_bytes for table in tables if table.is_loss)
    in_loss = max((table.passing_bytes for table in tables if table.is_loss), default=0.0)
    in_layers = max((table.passing_bytes for table in tables if table.is_layer), default=0.0)
    if not any(table.is_loss or table.is_layer for table in tables):
        return tables[0].passing_bytes, 0.0
    return (in_loss, 0.0) if in_loss + loss >= in_layers else (in_layers, loss)


def _stranded_bytes(shard: Shard, stage: Stage, tables: tuple[BlockMemory, ...], precision: Precision) -> float:
    """Free at the peak, in blocks of the allocator that nothing then fits into."""
    stranded = max(table.stranded_bytes for table in tables)
    if not frameworks[shard.plan.framework].strands_update_buffers:
        return stranded
    return stranded + _widened_gradient_bytes(shard, stage, precision) + _bucket_bytes(shard, stage, precision)


def _activations_bytes(
    tables: tuple[BlockMemory, ...], counts: tuple[int, ...], in_flight: float, offloaded_frac: float
) -> tuple[float, float, float]:
    """Kept on the device, kept on the host, and on the way between them. Only layers' are offloaded.

    The loss is left as soon as it is entered: its activations are never held twice.
    """
    pairs = tuple(zip(tables, counts, strict=True))
    layers = sum(count * table.kept_bytes for table, count in pairs if table.is_layer) * in_flight
    others = sum(
        count * table.kept_bytes * (1.0 if table.is_loss else in_flight) for table, count in pairs if not table.is_layer
    )
    offloaded = offloaded_frac * layers
    largest = max((table.kept_bytes for table in tables if table.is_layer), default=0.0)
    in_transit = min(NUM_OFFLOADED_IN_TRANSIT * offloaded_frac * largest, offloaded)
    return layers - offloaded + others, offloaded, in_transit


def _framework_bytes(shard: Shard, stage: Stage, tables: tuple[BlockMemory, ...], in_flight: float) -> float:
    """What the plan's framework stands on the device: placeholder gradients, and tensors on a stage's borders."""
    plan, framework = shard.plan, frameworks[shard.plan.framework]
    placeholders = sum(dict(entry for table in tables for entry in table.placeholders).values())
    if plan.pipeline_parallel == 1:
        return placeholders
    is_last = stage.index == plan.pipeline_parallel - 1
    num_outputs = in_flight * plan.interleave if framework.keeps_stage_outputs and not is_last else 0.0
    num_buffers = (
        framework.num_boundary_buffers + framework.num_boundary_buffers_per_microbatch * shard.num_microbatches
    )
    return placeholders + (num_outputs + num_buffers) * shard.carried_bytes


def _bucket_bytes(shard: Shard, stage: Stage, precision: Precision) -> float:
    """A bucket that gradients are reduced in and one that sharded parameters are gathered in, as frameworks size it."""
    plan, framework = shard.plan, frameworks[shard.plan.framework]
    gradients = min(framework.bucket_elements, sum(gradient_elements(stage))) * precision.reduce_bytes
    parameters = min(framework.bucket_elements, sum(parameter_elements(stage))) * precision.gather_bytes
    return gradients + (parameters if plan.zero_stage else 0.0)


def runtime_bytes(plan: Plan) -> float:
    """What a process holds besides its tensors: context, kernels, and a communicator for each group it is in."""
    degrees = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel, plan.pipeline_parallel)
    if plan.num_devices == 1:
        return CONTEXT_BYTES
    num_groups = sum(degree > 1 for degree in (*degrees, plan.expert_parallel))
    return CONTEXT_BYTES + FIRST_COMMUNICATOR_BYTES + num_groups * COMMUNICATOR_BYTES


def _state_bytes(shard: Shard, stage: Stage, precision: Precision) -> StageMemory:
    """What is held of every parameter: ZeRO-1 shards optimizer state, 2 gradients too, 3 weights too.

    Offloaded, the optimizer's state is the host's, and so are the update and its buffers.
    """
    optimizer_bytes = _held_bytes(shard, parameter_elements(stage), precision.optimizer_bytes, 1)
    is_offloaded = shard.plan.offload_optimizer
    return StageMemory(
        stage=stage.index,
        weights_bytes=_held_bytes(shard, parameter_elements(stage), precision.weight_bytes, 3),
        gradients_bytes=_held_bytes(shard, gradient_elements(stage), precision.gradient_bytes, 2),
        optimizer_bytes=0.0 if is_offloaded else optimizer_bytes,
        activations_bytes=0.0,
        buffers_bytes=0.0,
        host_bytes=optimizer_bytes if is_offloaded else 0.0,
    )


def _held_bytes(shard: Shard, elements: tuple[float, float], bytes_per_parameter: float, from_zero_stage: int) -> float:
    """One device's share of something kept per (ordinary, expert) parameter that a ZeRO stage begins to shard."""
    plan = shard.plan
    plain, experts = elements
    is_sharded = plan.zero_stage >= from_zero_stage
    data_ranks = plan.data_parallel * plan.context_parallel if is_sharded else 1
    expert_ranks = plan.expert_data_parallel if is_sharded else 1
    return bytes_per_parameter * (plain / data_ranks + experts / expert_ranks)


def _widened_gradient_bytes(shard: Shard, stage: Stage, precision: Precision) -> float:
    """fp32 copies of the gradients whose state is updated here, where gradients are kept in less."""
    plan = shard.plan
    if not precision.has_master_weights or precision.reduce_bytes >= MASTER_BYTES or plan.offload_optimizer:
        return 0.0
    is_twice = frameworks[plan.framework].widens_by_tensor and plan.zero_stage == 0
    return _held_bytes(shard, gradient_elements(stage), MASTER_BYTES, 1) * (2.0 if is_twice else 1.0)


def _parameter_buffers_bytes(shard: Shard, stage: Stage, precision: Precision) -> float:
    """Parameters gathered whole and gradients on their way.

    ZeRO-3, as FSDP2 does it: embedding and head stay gathered (its root group), and of the layers the one in use and
    the next; never more than the stage has. Gradients of the largest block are in the buffer they are reduced from,
    and as products left them unless they were added to ones that stand. Some frameworks gather a pipeline's stages
    whole and sum their gradients so. ZeRO-2: one bucket.
    """
    plan = shard.plan
    if plan.zero_stage < 2 or plan.data_parallel * plan.context_parallel == 1:
        return 0.0
    if plan.zero_stage == 2:
        return min(REDUCE_BUCKET_ELEMENTS, sum(gradient_elements(stage))) * precision.reduce_bytes
    whole = sum(parameter_elements(stage))
    if frameworks[plan.framework].gathers_stages_whole and plan.pipeline_parallel > 1:
        return whole * (precision.gather_bytes + precision.reduce_bytes)
    sizes = [(sum(block_parameters(piece.block)), piece.block.is_layer) for piece in stage.pieces]
    root = sum(size for size, is_layer in sizes if not is_layer)
    layer = max((size for size, is_layer in sizes if is_layer), default=0.0)
    gathered = min(root + NUM_PREFETCHED_BLOCKS * layer, whole)
    unreduced_bytes = 0.0 if precision.are_gradients_standing else dtype_bytes(precision.storage)
    largest = max(size for size, _ in sizes)
    return gathered * precision.gather_bytes + largest * (unreduced_bytes + precision.reduce_bytes)
