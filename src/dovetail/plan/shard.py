"""A graph and a plan give what one device of each stage computes and sends for one microbatch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.plan.plan import Plan
from dovetail.workload.graph import Axis, Block, Graph, IntArray, Phase
from dovetail.workload.operators import Unit, dtype_bytes
from dovetail.workload.training import with_recompute


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A block as one stage runs it: `count` repeats of `block`, whose extents are one device's share.

    `recompute` is the policy these repeats go by; other repeats of the block may go by another.
    """

    block: Block
    count: int
    recompute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the devices of one pipeline stage hold and run, all interleaved chunks together."""

    index: int
    recompute: str
    pieces: tuple[Piece, ...]

    @property
    def num_layers(self) -> int:
        return sum(piece.count for piece in self.pieces if piece.block.is_layer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A sharded training step: stages in order, the degree of each axis, and how often a microbatch runs."""

    plan: Plan
    stages: tuple[Stage, ...]
    degrees: tuple[tuple[Axis, int], ...]
    num_microbatches: int
    carried_bytes: float  # one microbatch's activations between two stages, one device's share

    def degree(self, axis: Axis) -> int:
        return dict(self.degrees)[axis]


def axis_degrees(plan: Plan, graph: Graph) -> dict[Axis, int]:
    """How far each axis divides what it may divide, microbatches included in DATA."""
    sequence = plan.tensor_parallel if plan.sequence_parallel else 1
    data = plan.data_parallel * plan.num_microbatches(graph.batch)
    shards_state = plan.zero_stage >= 1
    return {
        Axis.DATA: data,
        Axis.CONTEXT: plan.context_parallel,
        Axis.TENSOR: plan.tensor_parallel,
        Axis.SEQUENCE: sequence,
        Axis.KV: min(plan.tensor_parallel, graph.num_kv_heads),
        Axis.EXPERT: plan.expert_parallel,
        Axis.EXPERT_TENSOR: plan.expert_tensor_parallel,
        Axis.EXPERT_DATA: plan.expert_data_parallel * plan.num_microbatches(graph.batch),
        Axis.STATE: plan.data_parallel * plan.context_parallel if shards_state else 1,
        Axis.EXPERT_STATE: plan.expert_data_parallel if shards_state else 1,
    }


def divisor(split: int, degrees: dict[Axis, int]) -> int:
    """By how much the axes in `split` divide an extent."""
    result = 1
    for axis, degree in degrees.items():
        if split & axis:
            result *= degree
    return result


def local_elements(elements: IntArray, split: IntArray, degrees: dict[Axis, int]) -> IntArray:
    """One device's share of each extent, rounded up: what does not divide is padded (vocabularies)."""
    distinct, inverse = np.unique(split, return_inverse=True)
    factors = np.array([divisor(int(s), degrees) for s in distinct], dtype=np.int64)[inverse].reshape(split.shape)
    return -(-elements // factors)


def shard(graph: Graph, plan: Plan) -> Shard:
    """One microbatch of `graph` cut by `plan`. The plan must have passed `check_plan`.

    The shares of all devices over all microbatches make up the whole; rows that an axis does not divide are
    computed by every device of that axis, as they are in reality.
    """
    degrees = axis_degrees(plan, graph)
    blocks = tuple(_local_block(block, degrees) for block in graph.blocks)
    counts = stage_counts(graph, plan)
    variants = {policy: tuple(_variant(block, policy, plan) for block in blocks) for policy in _policies(plan)}
    stages = tuple(_stage(variants, counts[:, stage], plan, stage) for stage in range(plan.pipeline_parallel))
    carried_elements = max(block.carried_elements for block in blocks if block.is_layer)
    return Shard(
        plan=plan,
        stages=stages,
        degrees=tuple(degrees.items()),
        num_microbatches=plan.num_microbatches(graph.batch),
        carried_bytes=carried_elements * dtype_bytes(graph.dtype),
    )


def stage_counts(graph: Graph, plan: Plan) -> IntArray:
    """Repeats of each block on each stage: blocks by stages."""
    bounds = np.concatenate(([0], np.cumsum(layers_per_chunk(graph.num_layers, plan))))
    counts = np.zeros((len(graph.blocks), plan.pipeline_parallel), dtype=np.int64)
    position = 0
    homes = [sorted({*stages}) for stages in plan.chunk_stages]
    held = [(chunk, stage) for chunk, stages in enumerate(homes) for stage in stages]
    chunks, stages = np.array(held).T
    for index, block in enumerate(graph.blocks):
        if not block.is_layer:
            counts[index, homes[0] if position == 0 else homes[-1]] += block.repeat
            continue
        overlap = np.minimum(position + block.repeat, bounds[1:]) - np.maximum(position, bounds[:-1])
        np.add.at(counts[index], stages, np.maximum(overlap, 0)[chunks])
        position += block.repeat
    return counts


def layers_per_chunk(num_layers: int, plan: Plan) -> tuple[int, ...]:
    """Layers of each chunk in model order; an uneven rest goes to the middle, away from embedding and head."""
    if plan.layers_per_stage:
        return plan.layers_per_stage
    chunks = plan.num_chunks
    base, rest = divmod(num_layers, chunks)
    first = (chunks - rest) // 2
    return tuple(base + (1 if first <= chunk < first + rest else 0) for chunk in range(chunks))


def _local_block(block: Block, degrees: dict[Axis, int]) -> Block:
    ops = block.ops
    local = replace(
        ops,
        extents=local_elements(ops.extents, ops.splits, degrees),
        weight_elements=local_elements(ops.weight_elements, ops.weight_split, degrees),
        gradient_elements=local_elements(ops.gradient_elements, ops.gradient_split, degrees),
        bias_elements=local_elements(ops.bias_elements, ops.bias_split, degrees),
    )
    carried = -(-block.carried_elements // divisor(block.carried_split, degrees))
    return replace(block, ops=local, carried_elements=carried)


def _variant(block: Block, recompute: str, plan: Plan) -> Block:
    """The rows of a block that run under a recompute policy.

    Tied weights are updated twice only when their owner and their user are on different stages.
    """
    ops = with_recompute(block.ops, recompute)
    if set(plan.chunk_stages[0]) == set(plan.chunk_stages[-1]):
        ops = ops.where(~((ops.phase == Phase.UPDATE) & ops.is_tied))
    return replace(block, ops=ops)


def _policies(plan: Plan) -> set[str]:
    return {*plan.recompute, *(("none",) if plan.recompute_layers else ())}


def _stage(variants: dict[str, tuple[Block, ...]], counts: IntArray, plan: Plan, index: int) -> Stage:
    """The first layers of a stage go by its recompute policy, as many as the plan says; the rest keep everything."""
    recompute = plan.recompute_of(index)
    pieces = []
    is_layer = np.array([block.is_layer for block in variants[recompute]])
    left = plan.num_recomputed_of(index, int(counts[is_layer].sum()))
    for position, block in enumerate(variants[recompute]):
        count = int(counts[position])
        by_policy = min(count, left) if block.is_layer else count
        left -= by_policy if block.is_layer else 0
        if by_policy:
            pieces.append(Piece(block=block, count=by_policy, recompute=recompute))
        if count > by_policy:
            pieces.append(Piece(block=variants["none"][position], count=count - by_policy, recompute="none"))
    return Stage(index=index, recompute=recompute, pieces=tuple(pieces))


def executed_flop(cut: Shard) -> float:
    """FLOP that the tensor units of all devices do in a step: recompute and repeated work in, masked scores out."""
    num_replicas = cut.plan.num_devices / cut.plan.pipeline_parallel
    once = 0.0
    for stage in cut.stages:
        for piece in stage.pieces:
            ops = piece.block.ops
            once += piece.count * float(ops.flop[ops.unit == Unit.TENSOR].sum())
    return num_replicas * cut.num_microbatches / cut.plan.num_copies * once
