"""What the blocks of a model compute on one device, under every distinct cut and recompute policy at once."""

from __future__ import annotations

import numpy as np

from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.chip import Calibration
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.plan.sharding import BlockRows
from dovetail.schedule.work_columns import COSTS, HOST, NUM_ROWS, ROWS, WAYS
from dovetail.workload.graph import FloatArray, IntArray


def computed(
    rows: BlockRows, columns: FloatArray, limit: IntArray, num_cuts: int, calibration: Calibration, num_rows: int
) -> FloatArray:
    """One microbatch through one repeat of a block that sends nothing: ways by rows of work by cuts by policies.

    `columns` are as in COSTS by operators of all blocks, cut after cut, and `limit` what those wait for. Of rows the
    first `num_rows`: NUM_ROWS, or NUM_TIMED.
    """
    sums, num_policies = rows.sums, len(RECOMPUTE_POLICIES)
    columns = columns.reshape(len(COSTS), num_cuts, -1)[:, :, rows.place]
    found = np.zeros((WAYS, NUM_ROWS, num_cuts, num_policies))
    by_kind = (columns @ sums.kinds).reshape(len(COSTS), num_cuts, WAYS, 2, num_policies).transpose(2, 3, 0, 1, 4)
    for index, name in enumerate(("cost", "core")):
        found[:, ROWS[name]] = by_kind[:, index]
    times = columns[COSTS.index("compute_s")]
    shares = (times @ sums.shares).reshape(num_cuts, WAYS, 2, num_policies)
    found[:, ROWS["recompute_s"] + ROWS["weight_s"]] = shares.transpose(1, 2, 0, 3)
    found[1, HOST] += sums.has_rerun * calibration.host_rerun_s
    if num_rows < NUM_ROWS:
        return found[:, :num_rows]
    limit = limit.reshape(num_cuts, -1)[:, rows.place]
    waits = np.where(limit == np.arange(len(LIMITS))[:, None, None], times, 0.0)
    limits = (waits @ sums.ways).reshape(-1, num_cuts, WAYS, num_policies)
    found[:, ROWS["limits_s"]] = limits.transpose(2, 0, 1, 3)
    return found
