"""What a plan lays on one device of a stage: blocks and how often, microbatches in flight. Of one plan or of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dovetail.plan.block_elements import BlockElements, elements_of
from dovetail.plan.block_memory import BlockMemory, block_memory
from dovetail.plan.frameworks import Framework, frameworks
from dovetail.plan.plan import Plan
from dovetail.plan.plans import Plans
from dovetail.plan.shard import Piece, Shard, Stage
from dovetail.plan.stage_elements import Owned, held_elements, is_owner_here
from dovetail.units import Amount
from dovetail.workload.graph import IntArray
from dovetail.workload.optimizer import Precision


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
class Held:
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
    pieces: tuple[Held, ...]
    in_flight: Amount  # microbatches whose activations it holds at its fullest
    num_microbatches: Amount
    carried_bytes: Amount  # one microbatch's activations between two stages

    @property
    def memories(self) -> tuple[BlockMemory, ...]:
        return tuple(piece.memory for piece in self.pieces)

    @cached_property
    def parameters(self) -> Owned:
        return held_elements(self._elements, lambda block: block.parameters, has_owner=self._has_owner)

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


def stage_load(shard: Shard, stage: Stage, precision: Precision, in_flight: float) -> Load:
    """Of one plan."""
    pieces = tuple(_held(shard, piece, precision) for piece in stage.pieces)
    return _load(shard, stage, pieces, in_flight)


def stage_loads(shard: Shard, precision: Precision, in_flight: Sequence[float]) -> tuple[Load, ...]:
    """Of every stage of one plan; what several of them hold is looked at once."""
    held: dict[Piece, Held] = {}
    for piece in (piece for stage in shard.stages for piece in stage.pieces):
        if piece not in held:
            held[piece] = _held(shard, piece, precision)
    pairs = zip(shard.stages, in_flight, strict=True)
    return tuple(_load(shard, stage, tuple(held[piece] for piece in stage.pieces), kept) for stage, kept in pairs)


def _held(shard: Shard, piece: Piece, precision: Precision) -> Held:
    framework = frameworks[shard.plan.framework]
    memory = block_memory(piece.block, piece.recompute, precision, framework, shard.one_cut)
    return Held(count=piece.count, memory=memory, elements=elements_of(piece.block, precision))


def _load(shard: Shard, stage: Stage, pieces: tuple[Held, ...], in_flight: float) -> Load:
    plan = shard.plan
    return Load(
        chosen=choices_of(plan),
        stage=stage.index,
        is_last=stage.index == plan.pipeline_parallel - 1,
        pieces=pieces,
        in_flight=in_flight,
        num_microbatches=shard.num_microbatches,
        carried_bytes=shard.carried_bytes,
    )
