"""Energy of a step of many plans at once, part by part of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.plan.layout import Run
from dovetail.schedule.stage_columns import StageColumns
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray

if TYPE_CHECKING:
    from dovetail.schedule.assembly import Assembly


def step_j(made: Assembly) -> FloatArray:
    """Energy of all devices in a step: work done, bytes sent, and being on for the whole of it."""
    every, same = made.shared, made.same
    idle_w = sum(part.table.chip_at(same.rows).energy.idle_w * part.cluster.num_devices for part in every.parts)
    num_handed = 2 * same.interleave * made.num_microbatches if same.num_stages > 1 else 0
    handed = num_handed, every.sharded.carried_bytes[every.table.cuts.of_plan[same.rows]]
    replica_j = sum(
        stages_j(made.columns, same.runs, index, part.cluster.chip, made.num_passes, made.tied_bytes, handed)
        for index, part in enumerate(every.parts)
    )
    return np.asarray(idle_w * made.step_s + every.table.num_devices / same.num_stages * replica_j)


def stages_j(
    columns: StageColumns,
    runs: Sequence[Run],
    part: int,
    chip: Chip,
    num_passes: Amount,
    tied_bytes: FloatArray,
    handed: tuple[Amount, FloatArray],
) -> FloatArray:
    """Work done and bytes sent in a step by a device of each stage on `part`, all of which are of `chip`.

    `handed`: how often a stage hands on, and the bytes of it. First and last stage send each other what is tied.
    """
    here = np.flatnonzero([run.part == part for run in runs])
    sizes = np.array([run.num_stages for run in runs if run.part == part], dtype=np.float64)
    link_j = chip.energy.link_j_per_byte
    pass_j = ((columns.energy_j + link_j * columns.sent_bytes)[:, here] @ sizes)[columns.work_of]
    once_j = (columns.update_j[:, here] @ sizes)[columns.update_of]
    sent = (columns.exchange.sent_bytes[:, here] @ sizes)[columns.exchange_of]
    num_ends = sum(end.part == part for end in (runs[0], runs[-1]))
    num_handed, carried_bytes = handed
    sent = sent + num_ends * tied_bytes + sizes.sum() * num_handed * carried_bytes
    return np.asarray(num_passes * pass_j + once_j + sent * link_j)
