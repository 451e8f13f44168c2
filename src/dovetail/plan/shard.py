"""A graph and a plan give what one device of each stage computes and sends for one microbatch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.plan.cuts import carried_bytes, degrees_of, loads_of, local_elements, local_ops
from dovetail.plan.plan import Plan
from dovetail.plan.plans import columns_of
from dovetail.workload.graph import Axis, Block, FloatArray, Graph, IntArray, Phase
from dovetail.workload.operators import Unit
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
    mean_frac: float  # of the rows that the most loaded device's experts get, what a mean one's do

    def degree(self, axis: Axis) -> int:
        return dict(self.degrees)[axis]

    @property
    def one_cut(self) -> dict[Axis, IntArray]:
        """The degrees as those of the one cut that the plan makes."""
        return {axis: np.array([degree]) for axis, degree in self.degrees}


def shard(graph: Graph, plan: Plan) -> Shard:
    """One microbatch of `graph` cut by `plan`. The plan must have passed `check_plan`.

    The shares of all devices over all microbatches make up the whole; rows that an axis does not divide are
    computed by every device of that axis, as they are in reality.
    """
    columns = columns_of([plan])
    degrees = degrees_of(columns, graph)
    loads = loads_of(columns, graph)
    blocks = tuple(_local_block(block, degrees, loads) for block in graph.blocks)
    counts = stage_counts(graph, plan)
    variants = {policy: tuple(_variant(block, policy, plan) for block in blocks) for policy in _policies(plan)}
    stages = tuple(_stage(variants, counts[:, stage], plan, stage) for stage in range(plan.pipeline_parallel))
    return Shard(
        plan=plan,
        stages=stages,
        degrees=tuple((axis, int(degree[0])) for axis, degree in degrees.items()),
        num_microbatches=plan.num_microbatches(graph.batch),
        carried_bytes=float(carried_bytes(graph, degrees)[0]),
        mean_frac=graph.routing.mean / float(loads[0]),
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


def _local_block(block: Block, degrees: dict[Axis, IntArray], loads: FloatArray) -> Block:
    """A device's share of `block` under the one cut that `degrees` make; attention over all parts that come round."""
    ops, degrees = block.ops, degrees | {Axis.HOPS: np.ones(1, dtype=np.int64)}
    local = replace(local_ops(ops, degrees, loads), edge_start=ops.edge_start, edge_to=ops.edge_to)
    [carried] = local_elements(np.array(block.carried_elements), np.array(block.carried_split), degrees)
    return replace(block, ops=local, carried_elements=int(carried))


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


def computed_flop(graph: Graph) -> float:
    """The model's FLOP in a step, less those of rows that experts have no room for."""
    found = 0.0
    for block in graph.blocks:
        is_routed = np.any(block.ops.splits & int(Axis.ROUTED), axis=1)
        kept = np.where(is_routed, graph.routing.kept_frac, 1.0)
        found += block.repeat * float((kept * block.ops.model_flop).sum())
    return found


def _tensor_flop(block: Block, mean_frac: float) -> tuple[float, float]:
    """Of one repeat of a block, on a device whose experts get the mean: of a microbatch, and of an update."""
    ops = block.ops
    is_routed = np.any(ops.splits & int(Axis.ROUTED), axis=1)
    flop = np.where(is_routed, mean_frac, 1.0) * ops.flop
    is_tensor, is_update = ops.unit == Unit.TENSOR, ops.phase == Phase.UPDATE
    return float(flop[is_tensor & ~is_update].sum()), float(flop[is_tensor & is_update].sum())


def executed_flop(cut: Shard) -> float:
    """FLOP that the tensor units of all devices do in a step: recompute and repeated work in, masked scores out.

    Passes run once a microbatch, the update once a step.
    """
    num_replicas = cut.plan.num_devices / cut.plan.pipeline_parallel
    pieces = [piece for stage in cut.stages for piece in stage.pieces]
    flop_of = {block: _tensor_flop(block, cut.mean_frac) for block in {piece.block for piece in pieces}}
    pass_flop = update_flop = 0.0
    for piece in pieces:
        of_pass, of_update = flop_of[piece.block]
        pass_flop += piece.count * of_pass
        update_flop += piece.count * of_update
    return num_replicas * cut.num_microbatches / cut.plan.num_copies * pass_flop + num_replicas * update_flop
