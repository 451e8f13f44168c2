"""What the stages of many plans take for a microbatch and once a step, by run of stages; plans alike share a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dovetail.plan.layout import Run
from dovetail.plan.placements import Placements
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.plan.plans import distinct
from dovetail.schedule.sync import Exchange, exchange, free_s, held_elements, update_collectives
from dovetail.schedule.work import StageWork
from dovetail.schedule.work_table import WorkTable
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

NONE = RECOMPUTE_POLICIES.index("none")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageColumns:
    """Distinct works, updates and exchanges, and which of them each plan has; amounts are rows by runs.

    `works` are all that a microbatch takes, as a value of rows by runs.
    """

    work_of: IntArray
    update_of: IntArray
    exchange_of: IntArray
    works: StageWork
    forward_s: FloatArray
    backward_s: FloatArray
    put_off_s: FloatArray
    free_forward_s: FloatArray  # what exchanges of the step can hide behind, and nothing hides behind yet
    free_backward_s: FloatArray
    hiding_backward_s: FloatArray  # what copies to the host can hide behind
    energy_j: FloatArray
    sent_bytes: FloatArray
    update_s: FloatArray
    update_j: FloatArray
    exchange: Exchange

    def of(self, rows: slice) -> StageColumns:
        """Those of some of the plans."""
        return replace(
            self,
            work_of=self.work_of[rows],
            update_of=self.update_of[rows],
            exchange_of=self.exchange_of[rows],
        )


def stage_columns(
    table: WorkTable,
    runs: tuple[Run, ...],
    rows: IntArray,
    graph: Graph,
    places: Placements,
    precision: Precision,
    *,
    fills_waits: bool,
) -> StageColumns:
    """Where recompute may fill waits (`fills_waits`), nothing hides behind it: what does was hidden by the wait."""
    first, work_of = distinct(table.sender_of[rows], table.plans.recompute[rows])
    works = table.stages(runs, rows[first])
    room = _without_recompute(table, runs, rows[first]) if fills_waits else _room(works)
    exchange_of, exchanged = _exchanged(table, runs, rows, graph, places, precision)
    return StageColumns(
        work_of=work_of,
        exchange_of=exchange_of,
        works=works,
        forward_s=works.forward.time_s,
        backward_s=works.backward.time_s,
        put_off_s=works.put_off_s,
        free_forward_s=room[0],
        free_backward_s=room[1],
        hiding_backward_s=room[2],
        energy_j=works.forward.cost.energy_j + works.backward.cost.energy_j,
        sent_bytes=works.forward.sent_bytes + works.backward.sent_bytes,
        exchange=exchanged,
        **_updated(table, runs, rows, graph, places, precision),
    )


def _updated(
    table: WorkTable, runs: tuple[Run, ...], rows: IntArray, graph: Graph, places: Placements, precision: Precision
) -> dict[str, Any]:
    """Which of the distinct updates of a step each plan has, and what these take, waits for their collectives in."""
    if not precision.entry.collectives:
        first, update_of = distinct(table.updater_of[rows])
        update = table.update(runs, rows[first])
        return {"update_of": update_of, "update_s": update.compute_s, "update_j": update.energy_j}
    first, update_of = distinct(table.updater_of[rows], table.exchanger_of[rows])
    some = rows[first]
    update, link_frac = table.update(runs, some), table.chip.calibration.link_frac
    waits_s, _ = update_collectives(runs, graph, table, some, places.at(some), precision, link_frac)
    return {"update_of": update_of, "update_s": update.compute_s + waits_s, "update_j": update.energy_j}


def _exchanged(
    table: WorkTable, runs: tuple[Run, ...], rows: IntArray, graph: Graph, places: Placements, precision: Precision
) -> tuple[IntArray, Exchange]:
    """Which of the distinct exchanges of a step each plan has, and these, with the bytes that the update sends."""
    first, exchange_of = distinct(table.exchanger_of[rows])
    some = rows[first]
    held, zero_stage = held_elements(runs, graph, table, some), table.plans.zero_stage[some]
    link_frac = table.chip.calibration.link_frac
    made = exchange(held, zero_stage, places.at(some), precision, link_frac)
    _, sent_bytes = update_collectives(runs, graph, table, some, places.at(some), precision, link_frac)
    return exchange_of, replace(made, sent_bytes=made.sent_bytes + sent_bytes)


def _room(works: StageWork) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What exchanges can hide behind, forward and backward, and copies to the host."""
    return free_s(works.forward), free_s(works.backward), works.backward.time_s


def _without_recompute(
    table: WorkTable, runs: tuple[Run, ...], rows: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The room of the plans in `rows` if they recomputed nothing."""
    first, sender_of = distinct(table.sender_of[rows])
    bare = tuple(replace(run, parts=tuple(replace(part, policy=NONE) for part in run.parts)) for run in runs)
    forward_s, backward_s, copied_s = _room(table.stages(bare, rows[first]))
    return forward_s[sender_of], backward_s[sender_of], copied_s[sender_of]
