"""What one device of each stage holds at its fullest moment, kind by kind, in bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dovetail.plan.plan import Plan
from dovetail.plan.shard import Piece, Shard, Stage
from dovetail.units import MEBI
from dovetail.workload.graph import Axis, Block, FloatArray, IntArray, Need, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, LIGHT, Unit, code_of, dtype_bytes
from dovetail.workload.optimizer import Precision

# Reserved over allocated is 1.03 to 1.09 in 15 configurations of SimuMax v1.2's B200 logs, 1.05 in the mean.
ALLOCATOR_RESERVE_FRAC = 0.05
# What a process holds outside the allocator, measured on one H200 with PyTorch 2.11, CUDA 13 and NCCL: 767 MiB for
# context and kernels after a transformer layer and its update, 556 MiB for the first communicator, 389 for each more.
CONTEXT_BYTES = 767 * MEBI
FIRST_COMMUNICATOR_BYTES = 556 * MEBI
COMMUNICATOR_BYTES = 389 * MEBI
_EXPERT_AXES = int(Axis.EXPERT | Axis.EXPERT_TENSOR)
_LOSSES = tuple(code_of(kind) for kind in ("cross_entropy", "inplace_cross_entropy", "fused_cross_entropy"))
MASTER_BYTES = 4.0  # master weights and the gradients that update them are fp32
NUM_PREFETCHED_BLOCKS = 2  # ZeRO-3 holds the block in use and the next one whole (FSDP's default prefetch)
REDUCE_BUCKET_ELEMENTS = 40_000_000  # gradients reduced at a time: Megatron-LM's default bucket, max(40 M, 1 M x dp)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Memory of one device of one stage at its peak.

    `activations_bytes` are kept from forward to backward; `buffers_bytes` are what passes: recomputed layers,
    logits and their gradients, gathered parameters, communication buckets.
    """

    stage: int
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    buffers_bytes: float

    @property
    def total_bytes(self) -> float:
        state_bytes = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return state_bytes + self.activations_bytes + self.buffers_bytes


def stage_memory(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> StageMemory:
    """Peak memory of a device of `stage` that keeps `in_flight` microbatches of activations at once."""
    return max(moments(shard, stage, precision, in_flight), key=lambda memory: memory.total_bytes)


def moments(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> tuple[StageMemory, ...]:
    """The three moments of a step of which one is its peak.

    The backward pass begins: all activations held, gradients only if they stand from step to step. It ends: all
    gradients held, and the activations of the last layer to be reached. The update runs: gradients narrower than the
    master weights are widened first.
    """
    states = _state_bytes(shard, stage, precision)
    parameters = _parameter_buffers_bytes(shard, stage, precision)
    kept = sum(p.count * kept_bytes(p.block, stage.recompute) * _in_flight(p.block, in_flight) for p in stage.pieces)
    passing = max(_backward_buffers_bytes(piece, stage.recompute, precision) for piece in stage.pieces)
    last = next((piece for piece in stage.pieces if piece.block.is_layer), stage.pieces[0])
    standing = states.gradients_bytes if precision.are_gradients_standing else 0.0
    begin = replace(states, gradients_bytes=standing, activations_bytes=kept, buffers_bytes=passing + parameters)
    end = replace(
        states,
        activations_bytes=kept_bytes(last.block, stage.recompute),
        buffers_bytes=_backward_buffers_bytes(last, stage.recompute, precision) + parameters,
    )
    update = replace(states, buffers_bytes=_widened_gradient_bytes(shard, stage, precision))
    return begin, end, update


def runtime_bytes(plan: Plan) -> float:
    """What a process holds besides its tensors: context, kernels, and a communicator for each group it is in."""
    degrees = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel, plan.pipeline_parallel)
    if plan.num_devices == 1:
        return CONTEXT_BYTES
    num_groups = sum(degree > 1 for degree in (*degrees, plan.expert_parallel))
    return CONTEXT_BYTES + FIRST_COMMUNICATOR_BYTES + num_groups * COMMUNICATOR_BYTES


def _state_bytes(shard: Shard, stage: Stage, precision: Precision) -> StageMemory:
    """What is held of every parameter: ZeRO-1 shards optimizer state, 2 gradients too, 3 weights too."""
    return StageMemory(
        stage=stage.index,
        weights_bytes=_held_bytes(shard, parameter_elements(stage), precision.weight_bytes, 3),
        gradients_bytes=_held_bytes(shard, gradient_elements(stage), precision.gradient_bytes, 2),
        optimizer_bytes=_held_bytes(shard, parameter_elements(stage), precision.optimizer_bytes, 1),
        activations_bytes=0.0,
        buffers_bytes=0.0,
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
    if not precision.has_master_weights or precision.reduce_bytes >= MASTER_BYTES:
        return 0.0
    return _held_bytes(shard, gradient_elements(stage), MASTER_BYTES, 1)


def block_parameters(block: Block) -> tuple[float, float]:
    """One device's parameters of one repeat: ordinary ones, and those of experts; tied ones included."""
    ops = block.ops
    return _by_owner(ops, ops.weight_elements, ops.weight_split)


def block_gradients(block: Block) -> tuple[float, float]:
    """One device's gradients of one repeat, as `block_parameters`; of bags of embeddings only rows looked up."""
    ops = block.ops
    return _by_owner(ops, ops.gradient_elements, ops.gradient_split)


def _by_owner(ops: Ops, elements: IntArray, split: IntArray) -> tuple[float, float]:
    is_expert, is_expert_bias = (split & _EXPERT_AXES) != 0, (ops.bias_split & _EXPERT_AXES) != 0
    plain = elements[~is_expert].sum() + ops.bias_elements[~is_expert_bias].sum()
    experts = elements[is_expert].sum() + ops.bias_elements[is_expert_bias].sum()
    return float(plain), float(experts)


def parameter_elements(stage: Stage) -> tuple[float, float]:
    """One device's parameters on `stage`; tied ones count only where their owner is on another stage."""
    return _stage_elements(stage, block_parameters)


def gradient_elements(stage: Stage) -> tuple[float, float]:
    """One device's gradients on `stage`, as `parameter_elements`."""
    return _stage_elements(stage, block_gradients)


def sparse_elements(stage: Stage) -> tuple[float, float]:
    """Those of `gradient_elements` that belong to tables of which only looked-up rows have one."""
    return _stage_elements(stage, _block_sparse_gradients)


def _block_sparse_gradients(block: Block) -> tuple[float, float]:
    ops = block.ops
    is_sparse = ops.gradient_elements < ops.weight_elements
    is_expert = (ops.gradient_split & _EXPERT_AXES) != 0
    plain, experts = is_sparse & ~is_expert, is_sparse & is_expert
    return float(ops.gradient_elements[plain].sum()), float(ops.gradient_elements[experts].sum())


def _stage_elements(stage: Stage, of_block: Callable[[Block], tuple[float, float]]) -> tuple[float, float]:
    is_owner_here = stage.index == 0 and any(not piece.block.is_layer for piece in stage.pieces)
    plain = experts = 0.0
    for piece in stage.pieces:
        block_plain, block_experts = of_block(piece.block)
        is_held_twice = is_owner_here and block_plain > 0
        plain += piece.count * (block_plain - (tied_elements(piece.block) if is_held_twice else 0.0))
        experts += piece.count * block_experts
    return plain, experts


def tied_elements(block: Block) -> float:
    """One device's parameters that an earlier block owns."""
    return float(block.ops.weight_elements[block.ops.is_tied].sum())


def kept_bytes(block: Block, recompute: str) -> float:
    """Activations one microbatch leaves in one repeat of `block` between its forward and its backward pass."""
    policy = recompute if block.is_layer else "none"
    ops = block.ops
    forward = ops.phase == Phase.FORWARD
    if policy == "full":
        return float(_output_bytes(ops)[forward & (ops.kind == code_of("input"))].sum())
    needed = ops.need != Need.NOBODY
    has_side = np.ones(len(ops), dtype=bool)
    if policy == "light":
        needed = needed & ~np.isin(ops.kind, LIGHT)
    if policy == "selective":
        needed = np.where(ops.is_core, (ops.need & Need.OUTSIDE) != 0, needed)
        has_side = ~ops.is_core
    tensors = _output_bytes(ops)[forward & needed].sum()
    sides = (ops.output_elements * ops.kept_bytes_per_element)[forward & has_side].sum()
    return float(tensors + sides)


def _output_bytes(ops: Ops) -> FloatArray:
    output_bytes: FloatArray = ops.output_elements * DTYPE_BYTES[ops.dtype]
    return output_bytes


def _in_flight(block: Block, in_flight: float) -> float:
    """The loss is left as soon as it is entered: its activations are never held twice."""
    is_loss = not block.is_layer and bool(np.isin(block.ops.kind, _LOSSES).any())
    return 1.0 if is_loss else in_flight


def _backward_buffers_bytes(piece: Piece, recompute: str, precision: Precision) -> float:
    """What the backward pass of one repeat holds for a moment.

    What recompute brings back; the largest output and its gradient, or what the loss kernel takes; and the largest
    weight gradient before it is added to one that stands in another dtype.
    """
    ops, policy = piece.block.ops, recompute if piece.block.is_layer else "none"
    brought_back = kept_bytes(piece.block, "none") - kept_bytes(piece.block, policy)
    is_moving = (ops.phase == Phase.FORWARD) & ((ops.unit == Unit.TENSOR) | (ops.unit == Unit.VECTOR))
    copies = 1.0 + (ops.need == Need.NOBODY)
    passing = float((_output_bytes(ops) * copies)[is_moving].max(initial=0.0))
    losses = np.flatnonzero(np.isin(ops.kind, _LOSSES) & is_moving)
    if len(losses):
        passing = max(_loss_buffer_bytes(ops, int(row)) for row in losses)
    is_added = precision.are_gradients_standing and precision.gradients != precision.storage
    is_added = is_added and not precision.has_compute_gradients
    arriving = float(ops.gradient_elements.max(initial=0)) * dtype_bytes(precision.storage) if is_added else 0.0
    return brought_back + passing + arriving


def _loss_buffer_bytes(ops: Ops, row: int) -> float:
    """Logits and gradients beside what the loss keeps.

    Out of place: the logits, the gradient in the loss's dtype, and again in the logits' if that differs. With the
    gradient in place of the probabilities: its copy in the logits' dtype. In one kernel over the logits: nothing.
    """
    elements = float(ops.output_elements[row])
    stored, lost = float(DTYPE_BYTES[ops.dtype[row]]), float(ops.kept_bytes_per_element[row])
    if ops.kind[row] == code_of("cross_entropy"):
        return elements * (stored + lost + (stored if lost != stored else 0.0))
    return elements * stored if ops.kind[row] == code_of("inplace_cross_entropy") else 0.0


def _parameter_buffers_bytes(shard: Shard, stage: Stage, precision: Precision) -> float:
    """Parameters gathered whole and gradients on their way.

    ZeRO-3, as FSDP2 does it: embedding and head stay gathered (its root group), and of the layers the one in use and
    the next; never more than the stage has. Gradients of the largest block are in the buffer they are reduced from,
    and as products left them unless they were added to ones that stand. ZeRO-2: one bucket.
    """
    plan = shard.plan
    if plan.zero_stage < 2 or plan.data_parallel * plan.context_parallel == 1:
        return 0.0
    if plan.zero_stage == 2:
        return min(REDUCE_BUCKET_ELEMENTS, sum(gradient_elements(stage))) * precision.reduce_bytes
    sizes = [(sum(block_parameters(piece.block)), piece.block.is_layer) for piece in stage.pieces]
    root = sum(size for size, is_layer in sizes if not is_layer)
    layer = max((size for size, is_layer in sizes if is_layer), default=0.0)
    gathered = min(root + NUM_PREFETCHED_BLOCKS * layer, sum(parameter_elements(stage)))
    unreduced_bytes = 0.0 if precision.are_gradients_standing else dtype_bytes(precision.storage)
    largest = max(size for size, _ in sizes)
    return gathered * precision.gather_bytes + largest * (unreduced_bytes + precision.reduce_bytes)
