"""Work of one microbatch on the stages of many plans at once, on one chip or many; what plans share is costed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.cost import Cost
from dovetail.cost.costs import distinct_costs
from dovetail.cost.op_cost import OpCosts
from dovetail.cost.power import Load, at_clock, sustained_clock_frac
from dovetail.hardware.chip import Calibration, Chip
from dovetail.plan.layout import AS_PLANNED, Run
from dovetail.plan.plans import Plans
from dovetail.plan.sharding import BlockElements, Cuts, ShardedPlans
from dovetail.schedule.block_table import computed
from dovetail.schedule.chip_rows import ChipRows, Running
from dovetail.schedule.context_sends import walk_parts
from dovetail.schedule.send_table import exchanging
from dovetail.schedule.sent import Sent
from dovetail.schedule.stage import entered, sustained
from dovetail.schedule.work import StageWork
from dovetail.schedule.work_columns import COSTS, NUM_TIMED, WAYS, cost_of, stage_work
from dovetail.schedule.work_frame import WorkFrame
from dovetail.workload.graph import Axis, BoolArray, FloatArray, IntArray, Ops


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkTable:
    """Blocks of a model as many plans run them, a value each.

    `works` are ways by rows of work by senders by recompute policies, `updates` rows of cost by updaters. On many
    chips, every chip has senders and updaters of its own, one chip's after another's, and `chip_of` is that of a plan.
    """

    sharded: ShardedPlans
    sender_of: IntArray
    updater_of: IntArray
    exchanger_of: IntArray  # plans that exchange the same once a step have the same
    are_ties_apart: BoolArray
    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]
    chip: Chip | ChipRows
    num_devices: int
    chip_of: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # nothing where there is one

    @property
    def plans(self) -> Plans:
        return self.sharded.plans

    @property
    def cuts(self) -> Cuts:
        return self.sharded.cuts

    @property
    def elements(self) -> tuple[BlockElements, ...]:
        """Parameters and gradients of one repeat of each block, by cut."""
        return self.sharded.elements

    def chip_at(self, rows: IntArray) -> Running:
        """The chip of the plans in `rows`, in the shape that these have; itself where there is only one."""
        return self.chip if isinstance(self.chip, Chip) else self.chip.at(self.chip_of[rows])

    @property
    def chip_of_senders(self) -> Running:
        """The chip of every sender, senders by 1; itself where there is only one."""
        if isinstance(self.chip, Chip):
            return self.chip
        num_chips = len(self.chip.tdp_w)
        return self.chip.at(np.repeat(np.arange(num_chips), self.works[0].shape[2] // num_chips)[:, None])

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
        chip = self.chip_at(rows[:, None])
        return sustained(entered(stage_work(total.swapaxes(2, 3), chip.endpoint_kind), chip), chip, self.num_devices)

    def update(self, runs: tuple[Run, ...], rows: IntArray) -> Cost:
        """The update at the end of a step of the plans in `rows` on a stage of each run: plans by runs."""
        updater, total = self.updater_of[rows], np.zeros((len(COSTS), len(rows), len(runs)))
        for (block, _), counts in _counts(runs).items():
            total += self.updates[block][:, updater, None] * counts
        update = cost_of(total)
        return at_clock(update, sustained_clock_frac(Load(cost=update), self.chip_at(rows[:, None])))


def _counts(runs: tuple[Run, ...]) -> dict[tuple[int, int], FloatArray]:
    """Repeats on a stage of each run, by block and policy."""
    found: dict[tuple[int, int], FloatArray] = {}
    for index, run in enumerate(runs):
        for part in run.parts:
            found.setdefault((part.block, part.policy), np.zeros(len(runs)))[index] += part.count
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipWorks:
    """Blocks of a model as the senders and updaters of a frame run them on many chips, chip after chip.

    Only time and energy can be said of them. `rows` are the chips.
    """

    frame: WorkFrame
    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]
    rows: ChipRows
    num_devices: int

    def pairs(self, plan: IntArray, chip: IntArray) -> WorkTable:
        """Some of the frame's plans, each on one of the chips."""
        frame, sharded = self.frame, self.frame.sharded
        return WorkTable(
            sharded=sharded.at(plan),
            sender_of=chip * len(frame.senders) + frame.sender_of[plan],
            updater_of=chip * sharded.num_updaters + sharded.updater_of[plan],
            exchanger_of=frame.exchanger_of[plan],
            are_ties_apart=sharded.are_ties_apart[plan],
            works=self.works,
            updates=self.updates,
            chip=self.rows,
            num_devices=self.num_devices,
            chip_of=chip,
        )


def chip_works(frame: WorkFrame, chips: ChipColumns, rows: ChipRows, num_devices: int) -> ChipWorks:
    """The plans of `frame` on `chips`, of which `rows` says what costs do not read."""
    costs_of = partial(distinct_costs, chips=chips)
    costs = costs_of(frame.sharded.costed_ops)
    blocks = costed(frame, costs, costs_of, rows.calibration, (len(chips),), NUM_TIMED)
    works = sending(frame, blocks, frame.sent(exchanging(rows.calibration)), rows.calibration.host_exchange_s)
    return ChipWorks(
        frame=frame,
        works=tuple(work.reshape(*work.shape[:2], -1, work.shape[-1]) for work in works),
        updates=tuple(update.reshape(len(COSTS), -1) for update in blocks.updates),
        rows=rows,
        num_devices=num_devices,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costed:
    """Blocks of a model on one chip or many, before they send anything, and their updates.

    `works` are ways by rows of work, by chips where there are many, by cuts by recompute policies; `updates` rows of
    cost, by chips where there are many, by updaters.
    """

    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]


def costed(
    frame: WorkFrame,
    costs: OpCosts,
    costs_of: Callable[[Ops], OpCosts],
    calibration: Calibration,
    many: tuple[int, ...],
    num_rows: int,
) -> Costed:
    """The blocks of `frame`, whose operators cost `costs` and others what `costs_of` says, on `many` chips or on one.

    Costs are of operators, or of chips by operators.
    """
    sharded = frame.sharded
    cuts, local = sharded.cuts, sharded.local
    columns, update_columns = np.split(_columns(costs), [len(local)], axis=-1)
    walk_parts(columns, local, cuts.degrees[Axis.HOPS], lambda ops: _columns(costs_of(ops)))
    num_cuts, limit = int(np.prod(many)) * len(cuts), costs.limit[..., : len(local)]
    found = (computed(block, columns, limit, num_cuts, calibration, num_rows) for block in sharded.blocks)
    return Costed(
        works=tuple(work.reshape(WAYS, num_rows, *many, len(cuts), -1) for work in found),
        updates=frame.updated(update_columns.reshape(len(COSTS), *many, sharded.num_updaters, -1)),
    )


def sending(
    frame: WorkFrame, blocks: Costed, sent: Sequence[tuple[Sent, ...]], host_s: float
) -> tuple[FloatArray, ...]:
    """Works of each block with what it sends, by senders in place of cuts; the host calls a collective in `host_s`."""
    works = tuple(work.take(frame.senders.cut, axis=-2) for work in blocks.works)
    for work, ways in zip(works, sent, strict=True):
        frame.communicate(work, ways, host_s)
    return works


def _columns(costs: OpCosts) -> FloatArray:
    return np.stack([getattr(costs, name) for name in COSTS])
