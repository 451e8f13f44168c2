"""What many plans make of a model's blocks, before any chip is known: their cuts, what they send, what they update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.topology import Group
from dovetail.plan.block_elements import BlockElements
from dovetail.plan.cuts import Cuts, cuts_of, degrees_of, joined_ops, loads_of, local_ops
from dovetail.plan.placements import Placements
from dovetail.plan.plans import OVERLAPS, Plans, are_ties_apart, distinct
from dovetail.schedule.block_table import BlockRows, block_rows, local_elements_of
from dovetail.schedule.context_sends import context_sends, leave_last_part
from dovetail.schedule.send_table import Exchanging, Senders, Sends, block_sends, joined_sends, parameter_sends
from dovetail.schedule.sent import Sent, add_communication, sent_ways
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray, Ops, Phase
from dovetail.workload.optimizer import Precision

_NAME_OF_OVERLAP = {"data": "dp", "tensor": "tp", "context": "cp", "expert": "ep", "pipeline": "pp"}
_WITHIN_MICROBATCH = ("tensor", "context", "expert", "expert_tensor")  # groups that every microbatch uses
_FOR_PARAMETERS = ("data", "expert_data")  # and those it uses from ZeRO-2 on
_FOR_MATRICES = ("tensor", "expert_tensor")  # and those that an update may use beside these


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkFrame:
    """Plans by what their work depends on: distinct senders and updaters, and the operators of each.

    `local` are the operators of all blocks under each cut, cut after cut; `local_updates` those of `updates`, updater
    after updater.
    """

    plans: Plans
    cuts: Cuts
    senders: Senders
    sender_of: IntArray
    updater_of: IntArray
    exchanger_of: IntArray  # plans that exchange the same once a step have the same
    are_ties_apart: BoolArray
    are_updaters_apart: BoolArray
    blocks: tuple[BlockRows, ...]
    local: Ops
    elements: tuple[BlockElements, ...]
    updates: tuple[Ops, ...]
    local_updates: Ops
    precision: Precision

    @property
    def num_updaters(self) -> int:
        return len(self.are_updaters_apart)

    def placed(self, places: Placements) -> WorkFrame:
        """The same plans where they lie otherwise on a network."""
        senders, sender_of = _senders(self.plans, self.cuts, places, self.are_ties_apart)
        exchanger_of = _exchangers(self.plans, self.cuts, places, self.precision)
        return replace(self, senders=senders, sender_of=sender_of, exchanger_of=exchanger_of)

    def over(self, groups: tuple[Group, ...]) -> WorkFrame:
        """The same plans over groups of the same ranks, whose links are others."""
        return replace(self, senders=replace(self.senders, groups=groups))

    def communicate(self, work: FloatArray, sent: Sequence[Sent], host_s: float) -> None:
        """Adds to both directions of a block what they send: ways by rows, by chips if many, by senders by policies."""
        leave_last_part(work, self.senders)
        add_communication(work, sent, host_s)

    @property
    def costed_ops(self) -> Ops:
        """All operators whose cost makes up works and updates."""
        return joined_ops((self.local, self.local_updates))

    def sent(self, pace: Exchanging) -> tuple[tuple[Sent, ...], ...]:
        """What each block sends in all, forward and backward."""
        parts = (self.sends(index, pace) for index in range(len(self.blocks)))
        return tuple(sent_ways(joined_sends(sends), self.senders) for sends in parts)

    def sends(self, index: int, pace: Exchanging) -> tuple[Sends, ...]:
        """What a block sends: its network rows, context exchange, and parameters of two kinds, plain and experts'."""
        block, held, senders = self.blocks[index], self.elements[index], self.senders
        sends = [block_sends(block, self.local, senders, pace)]
        sends += context_sends(block, self.local, senders, pace)
        # where the owner of tied weights is on the same stage, it exchanges them
        tied = np.where(senders.are_ties_apart, 0.0, held.tied[senders.cut])
        bytes_each = (self.precision.gather_bytes, self.precision.reduce_bytes)
        for name, parameters, gradients, shared in (
            ("data", held.plain, held.plain_gradients, tied),
            ("expert_data", held.experts, held.expert_gradients, 0.0),
        ):
            whole, changed = parameters[senders.cut] - shared, gradients[senders.cut] - shared
            sends.append(parameter_sends(whole, changed, senders, name, bytes_each, pace))
        return tuple(sends)

    def updated(self, columns: FloatArray) -> tuple[FloatArray, ...]:
        """The update of one repeat of each block, of costs by chips, if many, by updaters by operators of all blocks.

        Tied weights are updated twice only when their owner and their user are on different stages.
        """
        ends = np.cumsum([len(ops) for ops in self.updates])[:-1]
        found = []
        for ops, own in zip(self.updates, np.split(columns, ends, axis=-1), strict=True):
            runs = ~ops.is_tied | self.are_updaters_apart[:, None]
            found.append(np.where(runs, own, 0.0).sum(axis=-1))
        return tuple(found)


def work_frame(graph: Graph, plans: Plans, places: Placements, precision: Precision) -> WorkFrame:
    cuts, are_apart = cuts_of(plans, graph), are_ties_apart(plans)
    senders, sender_of = _senders(plans, cuts, places, are_apart)
    # of tables, as many rows are updated as a microbatch looks up, so the cut is part of what an update depends on
    updaters, updater_of = distinct(cuts.of_plan, plans.data_parallel, plans.zero_stage >= 1, are_apart)
    blocks = block_rows([block.ops for block in graph.blocks])
    updates = tuple(block.ops.taken(np.flatnonzero(block.ops.phase == Phase.UPDATE)) for block in graph.blocks)
    some = plans.at(updaters)
    local = local_ops(joined_ops([block.ops for block in blocks]), cuts.degrees, cuts.loads)
    return WorkFrame(
        plans=plans,
        cuts=cuts,
        senders=senders,
        sender_of=sender_of,
        updater_of=updater_of,
        exchanger_of=_exchangers(plans, cuts, places, precision),
        are_ties_apart=are_apart,
        are_updaters_apart=are_apart[updaters],
        blocks=blocks,
        local=local,
        elements=tuple(
            local_elements_of(rows, local, len(cuts), precision, is_layer=block.is_layer)
            for rows, block in zip(blocks, graph.blocks, strict=True)
        ),
        updates=updates,
        local_updates=local_ops(joined_ops(updates), degrees_of(some, graph), loads_of(some, graph)),
        precision=precision,
    )


def _senders(plans: Plans, cuts: Cuts, places: Placements, are_apart: BoolArray) -> tuple[Senders, IntArray]:
    """Distinct combinations of what communication within a microbatch depends on."""
    zero_stage = np.where(plans.zero_stage >= 2, plans.zero_stage, 0)
    is_sharded = zero_stage >= 2
    flags = {_NAME_OF_OVERLAP.get(name, name): plans.overlap[:, index] for index, name in enumerate(OVERLAPS)}
    flags["dp"] = flags["dp"] & is_sharded
    del flags["pp"]
    groups = {name: places.group_of[name] for name in _WITHIN_MICROBATCH}
    groups |= {name: np.where(is_sharded, places.group_of[name], 0) for name in _FOR_PARAMETERS}
    apart = are_apart & is_sharded
    columns = (cuts.of_plan, zero_stage, apart, plans.sends_once, *flags.values(), *groups.values())
    first, sender_of = distinct(*columns)
    return Senders(
        cut=cuts.of_plan[first],
        num_cuts=len(cuts),
        loads=cuts.loads[cuts.of_plan[first]],
        is_sequence_parallel=plans.sequence_parallel[first],
        sends_once=plans.sends_once[first],
        num_context_ranks=plans.context_parallel[first],
        context_exchange=plans.context_exchange[first],
        zero_stage=zero_stage[first],
        are_ties_apart=apart[first],
        groups=places.groups,
        group_of={name: column[first] for name, column in groups.items()},
        may_overlap={axis: column[first] for axis, column in flags.items()},
    ), sender_of


def _exchangers(plans: Plans, cuts: Cuts, places: Placements, precision: Precision) -> IntArray:
    """Which of the distinct combinations of what is exchanged once a step each plan has."""
    names = (*_FOR_PARAMETERS, *(_FOR_MATRICES if precision.entry.collectives else ()))
    return distinct(cuts.of_plan, plans.zero_stage, *(places.group_of[name] for name in names))[1]
