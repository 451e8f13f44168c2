"""Peak memory of one device of each stage, kind by kind, in bytes; of many plans, in columns.

`memory_table` counts what blocks hold under every cut and recompute policy (`parallel.block_memory`), and stages are
assembled from it: `stage_peak_bytes` of many plans, `stage_memories` of one, which is a table of one row. Replicas,
ZeRO, the schedule's microbatches in flight and the framework's own buffers come in here; shapes of tensors do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from dovetail.parallel.block_memory import BlockMemory, block_memories
from dovetail.parallel.frameworks import Framework, frameworks
from dovetail.parallel.layout import AS_PLANNED
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.sharding import (
    BlockElements,
    Cuts,
    Owned,
    ShardedPlan,
    ShardedPlans,
    held_elements,
    is_owner_here,
    local_ops,
)
from dovetail.units import MEBI, Amount
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.operators import DTYPE_BYTES, dtype_bytes
from dovetail.workload.optimizer import Precision

# Reserved over allocated is 1.03 to 1.09 in 15 configurations of SimuMax v1.2's B200 logs, 1.05 in the mean.
ALLOCATOR_RESERVE_FRAC = 0.05
# What a process holds outside the allocator, measured on one H200 with PyTorch 2.11, CUDA 13 and NCCL: 767 MiB for
# context and kernels after a transformer layer and its update, 556 MiB for the first communicator, 389 for each more.
CONTEXT_BYTES = 767 * MEBI
FIRST_COMMUNICATOR_BYTES = 556 * MEBI
COMMUNICATOR_BYTES = 389 * MEBI
NUM_OFFLOADED_IN_TRANSIT = 2  # layers whose offloaded activations are on their way: one used, one moved beside it
MASTER_BYTES = 4.0  # master weights and the gradients that update them are fp32
UPDATE_PRODUCT_BYTES = dtype_bytes("bf16")  # products of an update are taken in bf16 (`workload.training`)
NUM_PREFETCHED_BLOCKS = 2  # ZeRO-3 holds the block in use and the next one whole (FSDP's default prefetch)
REDUCE_BUCKET_ELEMENTS = 40_000_000  # gradients reduced at a time: Megatron-LM's default bucket, max(40 M, 1 M x dp)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Memory of one device of one stage at its peak.

    `activations_bytes` are kept from forward to backward; `buffers_bytes` are what passes: recomputed layers,
    logits and their gradients, gathered parameters, communication buckets. Stated apart: `fragmentation_bytes`, free at
    the peak but held by the allocator in blocks that nothing then fits into, and `host_bytes`, what the plan offloads.
    Every amount may be an array: then this is a stage of as many plans.
    """

    stage: int
    weights_bytes: Amount
    gradients_bytes: Amount
    optimizer_bytes: Amount
    activations_bytes: Amount
    buffers_bytes: Amount
    fragmentation_bytes: Amount = 0.0
    host_bytes: Amount = 0.0
    reserve_frac: float = ALLOCATOR_RESERVE_FRAC  # of what is in use, what the allocator holds beside it

    @property
    def total_bytes(self) -> Amount:
        state_bytes = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return state_bytes + self.activations_bytes + self.buffers_bytes

    @property
    def reserve_bytes(self) -> Amount:
        """What the allocator holds beside what is in use at the peak."""
        return self.fragmentation_bytes + self.reserve_frac * (self.total_bytes + self.fragmentation_bytes)

    @property
    def reserved_bytes(self) -> Amount:
        return self.total_bytes + self.reserve_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choices:
    """What memory takes from a plan beside the work it cuts, or from as many plans. Framework and offload go for all.

    `data_ranks` hold the same ordinary parameters, `expert_ranks` the same experts.
    """

    zero_stage: Amount
    data_ranks: Amount
    expert_ranks: Amount
    pipeline_parallel: Amount
    interleave: Amount
    framework: Framework
    offload_optimizer: bool
    offload_activations_frac: float

    def at(self, rows: IntArray) -> Choices:
        """Of some of the plans."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS = ("zero_stage", "data_ranks", "expert_ranks", "pipeline_parallel", "interleave")


def choices_of(plan: Plan | Plans) -> Choices:
    return Choices(
        zero_stage=plan.zero_stage,
        data_ranks=plan.data_parallel * plan.context_parallel,
        expert_ranks=plan.expert_data_parallel,
        pipeline_parallel=plan.pipeline_parallel,
        interleave=plan.interleave,
        framework=frameworks[plan.framework],
        offload_optimizer=plan.offload_optimizer,
        offload_activations_frac=plan.offload_activations_frac,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldBlocks:
    """`count` repeats of a block, and what one of them holds."""

    count: Amount
    memory: BlockMemory
    elements: BlockElements


@dataclass(frozen=True, kw_only=True, eq=False)
class Load:
    """On one device of a stage, in the order of the model. Every amount may be an array: one value a plan.

    Which blocks there are, and whether the stage is the first or the last, is the same for all plans.
    """

    chosen: Choices
    stage: int
    is_last: bool
    pieces: tuple[HeldBlocks, ...]
    in_flight: Amount  # microbatches whose activations it holds at its fullest
    num_microbatches: Amount
    boundary_activation_bytes: Amount  # one microbatch's activations between two stages

    @property
    def memories(self) -> tuple[BlockMemory, ...]:
        return tuple(piece.memory for piece in self.pieces)

    @cached_property
    def parameters(self) -> Owned:
        return held_elements(self._elements, lambda block: block.parameters, has_owner=self._has_owner)

    @cached_property
    def trained(self) -> Owned:
        """Those of `parameters` that are not frozen."""
        return held_elements(
            self._elements,
            lambda block: block.trained,
            has_owner=self._has_owner,
            tied=lambda block: block.tied - block.tied_frozen,
        )

    @cached_property
    def gradients(self) -> Owned:
        return held_elements(self._elements, lambda block: block.gradients, has_owner=self._has_owner)

    @cached_property
    def matrices(self) -> Owned:
        """Parameters in matrices that the optimizer updates in a way of their own."""
        return held_elements(
            self._elements, lambda block: block.matrices, has_owner=self._has_owner, tied=lambda b: b.tied_matrices
        )

    @cached_property
    def factors(self) -> Owned:
        """Rows and columns of those matrices."""
        return held_elements(
            self._elements, lambda block: block.factors, has_owner=self._has_owner, tied=lambda b: b.tied_factors
        )

    @property
    def _elements(self) -> list[tuple[Amount, BlockElements]]:
        return [(piece.count, piece.elements) for piece in self.pieces]

    @property
    def _has_owner(self) -> bool:
        return is_owner_here([piece.memory.is_layer for piece in self.pieces])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryTable:
    """Blocks of a model as many plans hold them: `memories` by cut and policy, `elements` by cut."""

    sharded: ShardedPlans
    choices: Choices
    precision: Precision
    memories: tuple[BlockMemory, ...]
    elements: tuple[BlockElements, ...]
    num_microbatches: IntArray  # by plan

    @property
    def plans(self) -> Plans:
        return self.sharded.plans

    @property
    def cuts(self) -> Cuts:
        return self.sharded.cuts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stages:
    """One stage of each of some plans, all of which hold some of the same blocks.

    `stage` tells only the first from the others, which hold tied weights apart from their owner.
    """

    stage: int
    is_last: bool
    rows: IntArray  # of the plans
    blocks: tuple[tuple[int, int], ...]  # each with its recompute policy, which may be AS_PLANNED
    counts: FloatArray  # of these blocks, blocks by plans
    in_flight: FloatArray

    def between(self, start: int, end: int) -> Stages:
        """Some of them."""
        return replace(
            self,
            rows=self.rows[start:end],
            counts=self.counts[:, start:end],
            in_flight=self.in_flight[start:end],
        )


def memory_table(sharded: ShardedPlans, precision: Precision) -> MemoryTable:
    """What the blocks of `sharded` hold, under every cut of its plans and every recompute policy."""
    framework, degrees = frameworks[sharded.plans.framework], sharded.cuts.degrees
    return MemoryTable(
        sharded=sharded,
        choices=choices_of(sharded.plans),
        precision=precision,
        memories=tuple(
            block_memories(block, ops, local, sharded.plans.policies, precision, framework, degrees)
            for block, (ops, local) in zip(sharded.graph.blocks, sharded.forward, strict=True)
        ),
        elements=tuple(elements.slim() for elements in sharded.updated_elements(precision.entry)),
        num_microbatches=sharded.num_microbatches,
    )


def stage_peak_bytes(table: MemoryTable, stages: Stages) -> FloatArray:
    """What the allocator of a device of each of `stages` holds at its fullest moment."""
    peaks_bytes: FloatArray = peak_bytes(_load(table, stages), table.precision)
    return peaks_bytes


def stage_host_bytes(table: MemoryTable, stages: Stages) -> FloatArray:
    """What the host keeps for a device of each of `stages`."""
    kept_bytes: FloatArray = load_moments(_load(table, stages), table.precision)[0].host_bytes
    return np.broadcast_to(kept_bytes, stages.rows.shape)


def _load(table: MemoryTable, stages: Stages) -> Load:
    rows = stages.rows
    cut, recompute = table.cuts.of_plan[rows], table.plans.recompute[rows]
    pieces = tuple(
        HeldBlocks(
            count=count,
            memory=table.memories[block].at(cut, recompute if policy == AS_PLANNED else policy),
            elements=table.elements[block].at(cut),
        )
        for (block, policy), count in zip(stages.blocks, stages.counts, strict=True)
    )
    return Load(
        chosen=table.choices.at(rows),
        stage=stages.stage,
        is_last=stages.is_last,
        pieces=pieces,
        in_flight=stages.in_flight,
        num_microbatches=table.num_microbatches[rows],
        boundary_activation_bytes=table.sharded.boundary_activation_bytes[cut],
    )


def forward_memories(sharded: ShardedPlan, precision: Precision) -> tuple[StageMemory, ...]:
    """Peak memory per device of every stage in an evaluation step: weights, and activations freed as they are used.

    ZeRO-3 holds its share of the weights, and gathers the block in use and the next.
    """
    table = sharded.table
    chosen = choices_of(sharded.plan)
    live = [_forward_live_bytes(table, index) for index in range(len(table.graph.blocks))]
    found = []
    for stage in range(sharded.num_stages):
        pieces = [(span.count, table.elements[span.block], span.block) for span in sharded.spans(stage)]
        plain, experts = (
            sum(count * float(getattr(elements, kind)[0]) for count, elements, _ in pieces)
            for kind in ("plain", "experts")
        )
        sizes = [float(elements.plain[0] + elements.experts[0]) for _, elements, _ in pieces]
        root = sum(size for size, (_, _, block) in zip(sizes, pieces, strict=True) if not _is_layer(table, block))
        layer = max(
            (size for size, (_, _, block) in zip(sizes, pieces, strict=True) if _is_layer(table, block)), default=0
        )
        is_gathered = chosen.zero_stage == 3 and chosen.data_ranks > 1
        gathered = min(root + NUM_PREFETCHED_BLOCKS * layer, plain + experts) if is_gathered else 0.0
        found.append(
            StageMemory(
                stage=stage,
                weights_bytes=float(held_bytes(chosen, (plain, experts), precision.weight_bytes, 3)),
                gradients_bytes=0.0,
                optimizer_bytes=0.0,
                activations_bytes=max(live[block] for _, _, block in pieces),
                buffers_bytes=gathered * precision.gather_bytes,
                reserve_frac=_reserve_frac(chosen.framework),
            )
        )
    return tuple(found)


def _is_layer(table: ShardedPlans, block: int) -> bool:
    return table.graph.blocks[block].is_layer


def _forward_live_bytes(table: ShardedPlans, index: int) -> float:
    """What the operators of a block hold at the fullest moment of its forward pass: each output to its last reader."""
    ops = table.graph.blocks[index].ops
    local = local_ops(ops, table.cuts.degrees, table.cuts.loads)
    output_bytes = local.output_elements.reshape(len(table.cuts), -1)[0] * DTYPE_BYTES[ops.dtype]
    at = np.arange(len(ops))
    last = np.array([max([row, *ops.edge_to[ops.edge_start[row] : ops.edge_start[row + 1]]]) for row in at])
    last = np.where(np.diff(ops.edge_start) > 0, last, len(ops) - 1)  # what leaves the block lives to its end
    is_live = (at[:, None] <= at) & (at <= last[:, None])
    return float((output_bytes @ is_live).max())


def stage_memories(sharded: ShardedPlan, precision: Precision, in_flight: Sequence[float]) -> tuple[StageMemory, ...]:
    """Peak memory per device of every stage; `in_flight` is by stage how many microbatches' activations it holds."""
    table, last = memory_table(sharded.table, precision), sharded.num_stages - 1
    memories: list[StageMemory] = []
    for run in sharded.runs:
        stages = range(run.first_stage, run.first_stage + run.num_stages)
        # the last stage has no next one to hand on to
        for equal_stages in (stages[:-1], stages[-1:]) if stages[-1] == last else (stages,):
            if equal_stages:
                memories += _one_plan_peaks(
                    table, sharded, equal_stages, in_flight[equal_stages[0] : equal_stages[-1] + 1]
                )
    return tuple(memories)


def _one_plan_peaks(
    table: MemoryTable, sharded: ShardedPlan, stages: range, in_flight: Sequence[float]
) -> list[StageMemory]:
    """The fullest moment of each of `stages`, which hold the same blocks."""
    by_moment = [_single_stages(moment, stages) for moment in _one_plan_moments(table, sharded, stages, in_flight)]
    return [max(moments, key=lambda memory: memory.reserved_bytes) for moments in zip(*by_moment, strict=True)]


def moments(sharded: ShardedPlan, stage: int, precision: Precision, in_flight: float) -> tuple[StageMemory, ...]:
    """The moments of a step of which one is the peak of `stage`; see `load_moments`."""
    table, stages = memory_table(sharded.table, precision), range(stage, stage + 1)
    by_moment = _one_plan_moments(table, sharded, stages, [in_flight])
    return tuple(_single_stages(moment, stages)[0] for moment in by_moment)


def _one_plan_moments(
    table: MemoryTable, sharded: ShardedPlan, stages: range, in_flight: Sequence[float]
) -> tuple[StageMemory, ...]:
    """The moments of `stages`, which hold the same blocks, in columns."""
    spans = sharded.spans(stages[0])
    equal_stages = Stages(
        stage=stages[0],
        is_last=stages[-1] == sharded.num_stages - 1,
        rows=np.zeros(len(stages), dtype=np.int64),
        blocks=tuple((span.block, span.policy) for span in spans),
        counts=np.repeat([[float(span.count)] for span in spans], len(stages), axis=1),
        in_flight=np.array(in_flight, dtype=np.float64),
    )
    return load_moments(_load(table, equal_stages), table.precision)


def _single_stages(memory: StageMemory, stages: range) -> list[StageMemory]:
    """Columns of stages as a value for each."""
    names = [one.name for one in fields(memory) if one.name != "stage"]
    columns = [np.broadcast_to(getattr(memory, name), len(stages)).tolist() for name in names]
    rows = zip(*columns, strict=True)
    return [StageMemory(stage=s, **dict(zip(names, row, strict=True))) for s, row in zip(stages, rows, strict=True)]


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
        gradients_bytes=states.gradients_bytes if precision.has_persistent_gradients else 0.0,
        activations_bytes=kept - gone,
        buffers_bytes=passing + in_transit + standing_bytes,
        fragmentation_bytes=_fragmentation_bytes(load, precision, widened_bytes),
        host_bytes=states.host_bytes + offloaded,
    )
    end = replace(begin, gradients_bytes=states.gradients_bytes, activations_bytes=0.0)
    return (
        begin,
        replace(
            end,
            gradients_bytes=states.gradients_bytes - unborn_bytes(load, precision),
            activations_bytes=last.kept_bytes + last.host_bytes,  # what was on the host is back
            buffers_bytes=last.passing_bytes + standing_bytes,
        ),
        replace(end, buffers_bytes=load.memories[0].passing_bytes + standing_bytes),
        replace(states, buffers_bytes=widened_bytes + update_workspace_bytes(load), host_bytes=begin.host_bytes),
    )


def _state_bytes(load: Load, precision: Precision) -> StageMemory:
    """What is held of every parameter: ZeRO-1 shards optimizer state, 2 gradients too, 3 weights too.

    Offloaded, the optimizer's state is the host's, and so are the update, its buffers and a copy of the gradients.
    """
    optimizer_bytes = optimizer_state_bytes(load.chosen, load.trained, load.matrices, load.factors, precision)
    copied_bytes = held_bytes(load.chosen, load.gradients, precision.reduce_bytes, 1)
    framework = load.chosen.framework
    is_offloaded = load.chosen.offload_optimizer
    return StageMemory(
        stage=load.stage,
        weights_bytes=held_bytes(load.chosen, load.parameters, precision.weight_bytes, 3),
        gradients_bytes=held_bytes(load.chosen, load.gradients, _gradient_bytes(framework, precision), 2),
        optimizer_bytes=0.0 if is_offloaded else optimizer_bytes,
        activations_bytes=0.0,
        buffers_bytes=0.0,
        host_bytes=optimizer_bytes + copied_bytes if is_offloaded else 0.0,
        reserve_frac=_reserve_frac(framework),
    )


def _reserve_frac(framework: Framework) -> float:
    """Of what is in use, what an allocator holds beside it."""
    return 0.0 if framework.has_static_buffers else ALLOCATOR_RESERVE_FRAC


def room_bytes(plans: Plans, usable_bytes: Amount) -> Amount:
    """What tensors of plans may take of so much memory: less the runtime's, and less what the allocator reserves."""
    return (usable_bytes - runtime_bytes(plans)) / (1 + _reserve_frac(frameworks[plans.framework]))


def _gradient_bytes(framework: Framework, precision: Precision) -> float:
    """Bytes of a gradient once it is reduced, until the update."""
    return max(precision.gradient_bytes, precision.weight_bytes if framework.keeps_gradients_as_weights else 0.0)


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


def _fragmentation_bytes(load: Load, precision: Precision, widened_bytes: Amount) -> Amount:
    """Free at the peak, in blocks of the allocator that nothing then fits into."""
    stranded = largest_of([memory.fragmentation_bytes for memory in load.memories])
    if not load.chosen.framework.fragments_update_buffers:
        return stranded
    return stranded + widened_bytes + bucket_bytes(load, precision)


def _activations_bytes(load: Load, offloaded_frac: Amount) -> tuple[Amount, Amount, Amount]:
    """Kept on the device, kept on the host, and on the way between them. Only layers' are offloaded.

    The loss is left as soon as it is entered: its activations are never held twice.
    """
    held = [piece for piece in load.pieces if piece.memory.is_layer]
    layers = sum(_kept_bytes(piece) for piece in held) * load.in_flight
    by_policy = sum(piece.count * piece.memory.host_bytes for piece in held) * load.in_flight
    others = sum(
        _kept_bytes(piece) * (1.0 if piece.memory.is_loss else load.in_flight)
        for piece in load.pieces
        if not piece.memory.is_layer
    )
    offloaded = offloaded_frac * layers
    largest = largest_of([offloaded_frac * piece.memory.kept_bytes + piece.memory.host_bytes for piece in held])
    in_transit = np.minimum(NUM_OFFLOADED_IN_TRANSIT * largest, offloaded + by_policy)
    return layers - offloaded + others, offloaded + by_policy, in_transit


def _kept_bytes(piece: HeldBlocks) -> Amount:
    return piece.count * piece.memory.kept_bytes


def _framework_bytes(load: Load, precision: Precision) -> Amount:
    """What the plan's framework stands on the device: placeholder gradients, and tensors on a stage's borders."""
    framework = load.chosen.framework
    placeholders = _placeholder_elements(load.memories) * dtype_bytes(precision.storage)
    num_outputs = load.in_flight * load.chosen.interleave if framework.keeps_stage_outputs and not load.is_last else 0.0
    num_buffers = framework.num_boundary_buffers + framework.num_boundary_buffers_per_microbatch * load.num_microbatches
    return placeholders + np.where(
        load.chosen.pipeline_parallel > 1, (num_outputs + num_buffers) * load.boundary_activation_bytes, 0.0
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
    """What a process holds besides its tensors: context, kernels, and a communicator for each group it is in.

    XLA's share of HBM is none of these, and part of the reserve of its chips.
    """
    if frameworks[plan.framework].has_static_buffers:
        return np.zeros_like(plan.num_devices, dtype=np.float64)[()]
    degrees = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel, plan.pipeline_parallel)
    num_groups = sum(np.where(degree > 1, 1, 0) for degree in (*degrees, plan.expert_parallel))
    is_alone = plan.num_devices == 1
    return CONTEXT_BYTES + np.where(is_alone, 0.0, FIRST_COMMUNICATOR_BYTES + num_groups * COMMUNICATOR_BYTES)


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
    if precision.has_persistent_gradients or layer is None:
        return 0.0
    before = load.pieces[0]
    blocks = (layer,) if before.memory.is_layer else (layer, before)
    plain, experts = (sum(block.elements.gradients[owner] for block in blocks) for owner in (0, 1))
    return held_bytes(load.chosen, (plain, experts), _gradient_bytes(load.chosen.framework, precision), 2)


def bucket_bytes(load: Load, precision: Precision) -> Amount:
    """A bucket that gradients are reduced in and one that sharded parameters are gathered in, as frameworks size it."""
    bucket_elements = load.chosen.framework.bucket_elements
    gradients = np.minimum(bucket_elements, sum(load.gradients)) * precision.reduce_bytes
    parameters = np.minimum(bucket_elements, sum(load.trained)) * precision.gather_bytes
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
    stages whole and sum their gradients so. Others gather weight by weight: the one in use and the next, which is a
    layer's, and beside each its gradient as the product leaves it.
    """
    framework = load.chosen.framework
    if framework.gathers_by_tensor:
        in_use = largest_of([memory.largest_weight for memory in load.memories])
        beside = largest_of([memory.largest_weight for memory in load.memories if memory.is_layer])
        return (in_use + beside) * (precision.gather_bytes + dtype_bytes(precision.storage))
    whole = sum(load.parameters)
    sizes = [(sum(piece.elements.parameters), piece.memory.is_layer) for piece in load.pieces]
    root = sum(size for size, is_layer in sizes if not is_layer)
    layer = largest_of([size for size, is_layer in sizes if is_layer])
    gathered = np.minimum(root + NUM_PREFETCHED_BLOCKS * layer, whole)
    unreduced_bytes = 0.0 if precision.has_persistent_gradients else dtype_bytes(precision.storage)
    largest = largest_of([sum(piece.elements.trained) for piece in load.pieces])
    by_block = gathered * precision.gather_bytes + largest * (unreduced_bytes + precision.reduce_bytes)
    if not framework.gathers_stages_whole:
        return by_block
    by_stage = whole * precision.gather_bytes + sum(load.trained) * precision.reduce_bytes
    return np.where(load.chosen.pipeline_parallel > 1, by_stage, by_block)


def largest_of(amounts: list[Amount]) -> Amount:
    """The largest, plan by plan; nothing if there are none."""
    largest: Amount = amounts[0] if amounts else 0.0
    for amount in amounts[1:]:
        largest = np.maximum(largest, amount)
    return largest
