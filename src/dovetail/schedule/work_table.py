"""Work of one microbatch on the stages of many plans at once; what plans share is costed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.cost import Cost
from dovetail.cost.power import Load, at_clock, sustained_clock_frac
from dovetail.hardware.chip import Chip
from dovetail.plan.block_elements import BlockElements
from dovetail.plan.cuts import Cuts, cuts_of, degrees_of, joined_ops, loads_of, local_ops
from dovetail.plan.layout import AS_PLANNED, Run, runs_of
from dovetail.plan.placements import Placements, nowhere
from dovetail.plan.plan import Plan
from dovetail.plan.plans import OVERLAPS, Plans, are_ties_apart, columns_of, distinct
from dovetail.schedule.block_table import BlockRows, block_rows, computed, local_elements_of, op_columns
from dovetail.schedule.context_sends import context_sends, leave_last_part, walk_parts
from dovetail.schedule.send_table import Senders, add_communication, block_sends, joined_sends, parameter_sends
from dovetail.schedule.stage import entered, sustained
from dovetail.schedule.work import StageWork
from dovetail.schedule.work_columns import COSTS, NUM_ROWS, WAYS, cost_of, stage_work
from dovetail.workload.graph import Axis, BoolArray, FloatArray, Graph, IntArray, Ops, Phase
from dovetail.workload.optimizer import Precision

_NAME_OF_OVERLAP = {"data": "dp", "tensor": "tp", "context": "cp", "expert": "ep", "pipeline": "pp"}
_WITHIN_MICROBATCH = ("tensor", "context", "expert", "expert_tensor")  # groups that every microbatch uses
_FOR_PARAMETERS = ("data", "expert_data")  # and those it uses from ZeRO-2 on


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkTable:
    """Blocks of a model as many plans run them, a value each.

    `works` are ways by rows of work by senders by recompute policies, `updates` rows of cost by updaters.
    """

    plans: Plans
    cuts: Cuts
    sender_of: IntArray
    updater_of: IntArray
    exchanger_of: IntArray  # plans that exchange the same once a step have the same
    are_ties_apart: BoolArray
    elements: tuple[BlockElements, ...]  # by cut
    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]
    chip: Chip
    num_devices: int

    def stages(self, runs: tuple[Run, ...], rows: IntArray) -> StageWork:
        """One microbatch of the plans in `rows` on a stage of each run: plans by runs."""
        sender, planned = self.sender_of[rows], self.plans.recompute[rows]
        num_rows, num_policies = self.works[0].shape[1], self.works[0].shape[3]
        total = np.zeros((WAYS, num_rows, len(runs), len(rows)))
        for (block, policy), counts in _counts(runs).items():
            place = sender * num_policies + (planned if policy == AS_PLANNED else policy)
            work = self.works[block].reshape(WAYS, num_rows, -1).take(place, axis=2)
            for index in np.flatnonzero(counts):
                total[:, :, index] += counts[index] * work
        return sustained(entered(stage_work(total.swapaxes(2, 3)), self.chip), self.chip, self.num_devices)

    def update(self, runs: tuple[Run, ...], rows: IntArray) -> Cost:
        """The update at the end of a step of the plans in `rows` on a stage of each run: plans by runs."""
        updater, total = self.updater_of[rows], np.zeros((len(COSTS), len(rows), len(runs)))
        for (block, _), counts in _counts(runs).items():
            total += self.updates[block][:, updater, None] * counts
        update = cost_of(total)
        return at_clock(update, sustained_clock_frac(Load(cost=update), self.chip))


def _counts(runs: tuple[Run, ...]) -> dict[tuple[int, int], FloatArray]:
    """Repeats on a stage of each run, by block and policy."""
    found: dict[tuple[int, int], FloatArray] = {}
    for index, run in enumerate(runs):
        for part in run.parts:
            found.setdefault((part.block, part.policy), np.zeros(len(runs)))[index] += part.count
    return found


def work_table(
    graph: Graph, plans: Plans, places: Placements, chip: Chip, precision: Precision, num_devices: int, num_rows: int
) -> WorkTable:
    """Of works the first `num_rows`: NUM_ROWS, or the NUM_TIMED that time and energy follow from."""
    cuts, are_apart = cuts_of(plans, graph), are_ties_apart(plans)
    senders, sender_of = _senders(plans, cuts, places, are_apart)
    updaters, updater_of = _updaters(plans, cuts, are_apart)
    blocks = block_rows([block.ops for block in graph.blocks])
    updates, local_updates = _update_rows(graph, plans.at(updaters))
    local = local_ops(joined_ops([block.ops for block in blocks]), cuts.degrees, cuts.loads)
    columns, (update_columns, _) = op_columns((local, local_updates), chip)
    walk_parts(columns[0], local, cuts.degrees[Axis.HOPS], chip)
    elements = tuple(local_elements_of(block, local, len(cuts)) for block in blocks)
    by_cut = (computed(block, *columns, len(cuts), chip.calibration) for block in blocks)
    works = tuple(work[:, :num_rows].take(senders.cut, axis=2) for work in by_cut)
    for work, block, held in zip(works, blocks, elements, strict=True):
        _communicate(work, block, local, held, senders, precision, chip)
    return WorkTable(
        plans=plans,
        cuts=cuts,
        sender_of=sender_of,
        updater_of=updater_of,
        exchanger_of=_exchangers(plans, cuts, places),
        are_ties_apart=are_apart,
        elements=elements,
        works=works,
        updates=_updates(updates, update_columns.reshape(len(COSTS), len(updaters), -1), are_apart[updaters]),
        chip=chip,
        num_devices=num_devices,
    )


def lone_work(graph: Graph, plan: Plan, chip: Chip, precision: Precision) -> StageWork:
    """One microbatch of the first stage of `plan` on a device that waits for no other and sends nothing."""
    [run, *_] = runs_of(graph, plan)
    plans = columns_of([plan])
    table = work_table(graph, plans, nowhere(plans), chip, precision, 1, NUM_ROWS)
    return table.stages((run,), np.zeros(1, dtype=np.int64)).at(0, 0)


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


def _communicate(
    work: FloatArray,
    block: BlockRows,
    local: Ops,
    held: BlockElements,
    senders: Senders,
    precision: Precision,
    chip: Chip,
) -> None:
    """Adds to both directions of a block what they send."""
    leave_last_part(work, senders)
    sends = [block_sends(block, local, senders, chip.calibration)]
    sends += context_sends(block, local, senders, chip.calibration)
    # where the owner of tied weights is on the same stage, it exchanges them
    tied = np.where(senders.are_ties_apart, 0.0, held.tied[senders.cut])
    bytes_each = (precision.gather_bytes, precision.reduce_bytes)
    for name, parameters, gradients, shared in (
        ("data", held.plain, held.plain_gradients, tied),
        ("expert_data", held.experts, held.expert_gradients, 0.0),
    ):
        whole, changed = parameters[senders.cut] - shared, gradients[senders.cut] - shared
        sends.append(parameter_sends(whole, changed, senders, name, bytes_each, chip.calibration))
    add_communication(work, joined_sends(sends), senders, chip.calibration.host_exchange_s)


def _updaters(plans: Plans, cuts: Cuts, are_apart: BoolArray) -> tuple[IntArray, IntArray]:
    """Distinct combinations of what the update of a block depends on: the first plan of each, and each plan's.

    The cut is among them: of tables, as many rows are updated as a microbatch looks up.
    """
    return distinct(cuts.of_plan, plans.data_parallel, plans.zero_stage >= 1, are_apart)


def _update_rows(graph: Graph, plans: Plans) -> tuple[list[Ops], Ops]:
    """The update of each block, and of all of them as each of `plans` cuts it."""
    updates = [block.ops.taken(np.flatnonzero(block.ops.phase == Phase.UPDATE)) for block in graph.blocks]
    return updates, local_ops(joined_ops(updates), degrees_of(plans, graph), loads_of(plans, graph))


def _exchangers(plans: Plans, cuts: Cuts, places: Placements) -> IntArray:
    """Which of the distinct combinations of what is exchanged once a step each plan has."""
    return distinct(cuts.of_plan, plans.zero_stage, *(places.group_of[name] for name in _FOR_PARAMETERS))[1]


def _updates(blocks: list[Ops], columns: FloatArray, are_apart: BoolArray) -> tuple[FloatArray, ...]:
    """The update of one repeat of each block, rows of cost by updaters, of costs by updaters by operators of all.

    Tied weights are updated twice only when their owner and their user are on different stages.
    """
    ends = np.cumsum([len(ops) for ops in blocks])[:-1]
    found = []
    for ops, own in zip(blocks, np.split(columns, ends, axis=2), strict=True):
        runs = ~ops.is_tied | are_apart[:, None]
        found.append(np.where(runs, own, 0.0).sum(axis=2))
    return tuple(found)
