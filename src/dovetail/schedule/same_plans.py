"""The same plans on clusters that differ in little: what these have in common is worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial

import numpy as np

from dovetail.cost.costs import chip_costs, op_costs
from dovetail.cost.op_cost import OpCosts
from dovetail.hardware.chip import Chip
from dovetail.hardware.topology import Group
from dovetail.plan.layout import runs_of
from dovetail.plan.placements import Placements, nowhere
from dovetail.plan.plan import Plan
from dovetail.plan.plans import Plans, columns_of
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

    def __init__(self, graph: Graph, plans: Plans, precision: Precision) -> None:
        self.graph, self.plans, self.precision = graph, plans, precision
        self._frames: dict[Where, WorkFrame] = {}
        self._costs: dict[Chip, OpCosts] = {}
        self._blocks: dict[tuple[Chip, int], Costed] = {}
        self._sent: dict[tuple[Where, tuple[Group, ...], Exchanging], tuple[tuple[Sent, ...], ...]] = {}

    def table(self, places: Placements, chip: Chip, num_devices: int, num_rows: int) -> WorkTable:
        """Of works the first `num_rows`: NUM_ROWS, or the NUM_TIMED that time and energy follow from."""
        frame, host_s = self._frame(places), chip.calibration.host_exchange_s
        blocks = self._costed(frame, chip, num_rows)
        return WorkTable(
            plans=self.plans,
            cuts=frame.cuts,
            sender_of=frame.sender_of,
            updater_of=frame.updater_of,
            exchanger_of=frame.exchanger_of,
            are_ties_apart=frame.are_ties_apart,
            elements=frame.elements,
            works=sending(frame, blocks, self._sent_over(frame, places, exchanging(chip.calibration)), host_s),
            updates=blocks.updates,
            chip=chip,
            num_devices=num_devices,
        )

    def cost_on(self, chips: Iterable[Chip]) -> None:
        """Costs operators on all of `chips` in one call: ten take little longer than one."""
        new = [chip for chip in dict.fromkeys(chips) if chip not in self._costs]
        self._costs.update(zip(new, chip_costs(self._whole.costed_ops, new), strict=True))

    @cached_property
    def _whole(self) -> WorkFrame:
        """Of plans that lie nowhere yet."""
        return work_frame(self.graph, self.plans, nowhere(self.plans), self.precision)

    def _frame(self, places: Placements) -> WorkFrame:
        where = _where(places)
        if where not in self._frames:
            self._frames[where] = self._whole.placed(places)
        return self._frames[where].over(places.groups)

    def _costed(self, frame: WorkFrame, chip: Chip, num_rows: int) -> Costed:
        key = (chip, num_rows)
        if key not in self._blocks:
            if chip not in self._costs:
                self._costs[chip] = op_costs(frame.costed_ops, chip)
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
    [run, *_] = runs_of(graph, plan)
    plans = columns_of([plan])
    table = SamePlans(graph, plans, precision).table(nowhere(plans), chip, 1, NUM_ROWS)
    return table.stages((run,), np.zeros(1, dtype=np.int64)).at(0, 0)
