"""What sharded plans send where they lie on a network, before any chip is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.topology import Group
from dovetail.plan.placements import Placements
from dovetail.plan.plans import OVERLAPS, distinct
from dovetail.plan.sharding import ShardedPlans
from dovetail.schedule.context_sends import context_sends, leave_last_part
from dovetail.schedule.send_table import Exchanging, Senders, Sends, block_sends, joined_sends, parameter_sends
from dovetail.schedule.sent import Sent, add_communication, sent_ways
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.optimizer import Precision

_NAME_OF_OVERLAP = {"data": "dp", "tensor": "tp", "context": "cp", "expert": "ep", "pipeline": "pp"}
_WITHIN_MICROBATCH = ("tensor", "context", "expert", "expert_tensor")  # groups that every microbatch uses
_FOR_PARAMETERS = ("data", "expert_data")  # and those it uses from ZeRO-2 on


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkFrame:
    """Sharded plans where they lie on a network: distinct ways in which they communicate."""

    sharded: ShardedPlans
    precision: Precision
    senders: Senders
    sender_of: IntArray
    exchanger_of: IntArray  # plans that exchange the same once a step have the same

    def placed(self, places: Placements) -> WorkFrame:
        """The same plans where they lie otherwise on a network."""
        return work_frame(self.sharded, places, self.precision)

    def over(self, groups: tuple[Group, ...]) -> WorkFrame:
        """The same plans over groups of the same ranks, whose links are others."""
        return replace(self, senders=replace(self.senders, groups=groups))

    def communicate(self, work: FloatArray, sent: Sequence[Sent], host_s: float) -> None:
        """Adds to both directions of a block what they send: ways by rows, by chips if many, by senders by policies."""
        leave_last_part(work, self.senders)
        add_communication(work, sent, host_s)

    def sent(self, pace: Exchanging) -> tuple[tuple[Sent, ...], ...]:
        """What each block sends in all, forward and backward."""
        parts = (self.sends(index, pace) for index in range(len(self.sharded.blocks)))
        return tuple(sent_ways(joined_sends(sends), self.senders) for sends in parts)

    def sends(self, index: int, pace: Exchanging) -> tuple[Sends, ...]:
        """What a block sends: its network rows, context exchange, and parameters of two kinds, plain and experts'."""
        sharded, senders = self.sharded, self.senders
        block, held, local = sharded.blocks[index], sharded.elements[index], sharded.local
        sends = [block_sends(block, local, senders, pace)]
        sends += context_sends(block, local, senders, pace)
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
        updates, are_apart = self.sharded.updates, self.sharded.are_updaters_apart
        ends = np.cumsum([len(ops) for ops in updates])[:-1]
        found = []
        for ops, own in zip(updates, np.split(columns, ends, axis=-1), strict=True):
            runs = ~ops.is_tied | are_apart[:, None]
            found.append(np.where(runs, own, 0.0).sum(axis=-1))
        return tuple(found)


def work_frame(sharded: ShardedPlans, places: Placements, precision: Precision) -> WorkFrame:
    """`sharded` plans that lie so on a network."""
    senders, sender_of = _senders(sharded, places)
    return WorkFrame(
        sharded=sharded,
        precision=precision,
        senders=senders,
        sender_of=sender_of,
        exchanger_of=_exchangers(sharded, places),
    )


def _senders(sharded: ShardedPlans, places: Placements) -> tuple[Senders, IntArray]:
    """Distinct combinations of what communication within a microbatch depends on, and which of them each plan has."""
    plans, cuts = sharded.plans, sharded.cuts
    zero_stage = np.where(plans.zero_stage >= 2, plans.zero_stage, 0)
    is_sharded = zero_stage >= 2
    flags = {_NAME_OF_OVERLAP.get(name, name): plans.overlap[:, index] for index, name in enumerate(OVERLAPS)}
    flags["dp"] = flags["dp"] & is_sharded
    del flags["pp"]
    groups = {name: places.group_of[name] for name in _WITHIN_MICROBATCH}
    groups |= {name: np.where(is_sharded, places.group_of[name], 0) for name in _FOR_PARAMETERS}
    apart = sharded.are_ties_apart & is_sharded
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


def _exchangers(sharded: ShardedPlans, places: Placements) -> IntArray:
    """Which of the distinct combinations of what is exchanged once a step each plan has."""
    return distinct(
        sharded.cuts.of_plan, sharded.plans.zero_stage, *(places.group_of[name] for name in _FOR_PARAMETERS)
    )[1]
