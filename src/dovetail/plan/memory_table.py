"""What blocks of a model hold under every cut and recompute policy of many plans, and the peaks of their stages."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.plan.block_elements import BlockElements, block_elements, workspace
from dovetail.plan.block_memory import BlockMemory, block_memories, forward_ops
from dovetail.plan.cuts import Cuts, carried_bytes, local_ops
from dovetail.plan.frameworks import frameworks
from dovetail.plan.layout import AS_PLANNED
from dovetail.plan.load import Choices, Held, Load, choices_of
from dovetail.plan.memory import load_moments, peak_bytes
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.plan.plans import Plans
from dovetail.workload.graph import Block, FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryTable:
    """Blocks of a model as many plans hold them: `memories` by cut and policy, `elements` by cut."""

    plans: Plans
    choices: Choices
    precision: Precision
    cuts: Cuts
    memories: tuple[BlockMemory, ...]
    elements: tuple[BlockElements, ...]
    carried_bytes: FloatArray  # between two stages, by cut
    num_microbatches: IntArray  # by plan


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


def memory_table(graph: Graph, plans: Plans, cuts: Cuts, precision: Precision) -> MemoryTable:
    tables = [_block_table(block, plans, cuts, precision) for block in graph.blocks]
    return MemoryTable(
        plans=plans,
        choices=choices_of(plans),
        precision=precision,
        cuts=cuts,
        memories=tuple(memory for memory, _ in tables),
        elements=tuple(elements for _, elements in tables),
        carried_bytes=carried_bytes(graph, cuts.degrees),
        num_microbatches=graph.batch // (plans.data_parallel * plans.microbatch),
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
        Held(
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
        carried_bytes=table.carried_bytes[cut],
    )


def _block_table(block: Block, plans: Plans, cuts: Cuts, precision: Precision) -> tuple[BlockMemory, BlockElements]:
    ops = forward_ops(block)
    local = local_ops(ops, cuts.degrees, cuts.loads)
    framework = frameworks[plans.framework]
    memory = block_memories(block, ops, local, RECOMPUTE_POLICIES, precision, framework, cuts.degrees)
    elements = block_elements(ops, local, len(cuts), precision, is_layer=block.is_layer).slim()
    return memory, replace(elements, workspace=workspace(block))
