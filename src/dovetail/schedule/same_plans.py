"""The same plans on clusters that differ in little: what these have in common is worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from dovetail.cost.costs import chip_costs, op_costs
from dovetail.cost.op_cost import OpCosts
from dovetail.hardware.chip import Chip
from dovetail.hardware.topology import Group
from dovetail.plan.placements import Placements, nowhere
from dovetail.plan.plan import Plan
from dovetail.plan.sharding import ShardedPlans, shard
from dovetail.schedule.send_table import Exchanging, exchanging
from dovetail.schedule.sent import Sent
from dovetail.schedule.work import StageWork
from dovetail.schedule.work_columns import NUM_ROWS
from dovetail.schedule.work_frame import WorkFrame, work_frame
from dovetail.schedule.work_table import Costed, WorkTable, costed, sending
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision

Where = tuple[bytes, ...]  # which group of ranks every plan has, of each kind


class SamePlans:
    """Plans for a graph, on whatever chips and networks: operators are costed once a chip, exchanges once a network.

    What was found is kept by all it follows from, and no longer than this value.
    """

    def __init__(self, sharded: ShardedPlans, precision: Precision) -> None:
        self.sharded, self.precision = sharded, precision
        self._frames: dict[Where, WorkFrame] = {}
        self._costs: dict[Chip, OpCosts] = {}
        self._blocks: dict[tuple[Chip, int], Costed] = {}
        self._sent: dict[tuple[Where, tuple[Group, ...], Exchanging], tuple[tuple[Sent, ...], ...]] = {}

    def table(self, places: Placements, chip: Chip, num_devices: int, num_rows: int) -> WorkTable:
        """Of works the first `num_rows`: NUM_ROWS, or the NUM_TIMED that time and energy follow from."""
        frame, host_s, sharded = self._frame(places), chip.calibration.host_exchange_s, self.sharded
        blocks = self._costed(frame, chip, num_rows)
        return WorkTable(
            sharded=sharded,
            sender_of=frame.sender_of,
            updater_of=sharded.updater_of,
            exchanger_of=frame.exchanger_of,
            are_ties_apart=sharded.are_ties_apart,
            works=sending(frame, blocks, self._sent_over(frame, places, exchanging(chip.calibration)), host_s),
            updates=blocks.updates,
            chip=chip,
            num_devices=num_devices,
        )

    def cost_on(self, chips: Iterable[Chip]) -> None:
        """Costs operators on all of `chips` in one call: ten take little longer than one."""
        new = [chip for chip in dict.fromkeys(chips) if chip not in self._costs]
        self._costs.update(zip(new, chip_costs(self.sharded.costed_ops, new), strict=True))

    def _frame(self, places: Placements) -> WorkFrame:
        where = _where(places)
        if where not in self._frames:
            self._frames[where] = work_frame(self.sharded, places, self.precision)
        return self._frames[where].over(places.groups)

    def _costed(self, frame: WorkFrame, chip: Chip, num_rows: int) -> Costed:
        key = (chip, num_rows)
        if key not in self._blocks:
            if chip not in self._costs:
                self._costs[chip] = op_costs(self.sharded.costed_ops, chip)
            costs_of = partial(op_costs, chip=chip)
            self._blocks[key] = costed(frame, self._costs[chip], costs_of, chip.calibration, (), num_rows)
        return self._blocks[key]

    def _sent_over(self, frame: WorkFrame, places: Placements, pace: Exchanging) -> tuple[tuple[Sent, ...], ...]:
        key = (_where(places), places.groups, pace)
        if key not in self._sent:
            self._sent[key] = frame.sent(pace)
        return self._sent[key]


def _where(places: Placements) -> Where:
    return tuple(column.tobytes() for column in places.group_of.values())


def lone_work(graph: Graph, plan: Plan, chip: Chip, precision: Precision) -> StageWork:
    """One microbatch of the first stage of `plan` on a device that waits for no other and sends nothing."""
    sharded = shard(graph, plan)
    table = SamePlans(sharded.table, precision).table(nowhere(sharded.table.plans), chip, 1, NUM_ROWS)
    return table.stages(sharded.runs[:1], np.zeros(1, dtype=np.int64)).at(0, 0)
