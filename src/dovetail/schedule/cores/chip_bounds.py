"""What no schedule of one graph can beat on each chip of a batch."""

from __future__ import annotations

import numpy as np

from dovetail.schedule.cores.compiled import compiled_loops
from dovetail.schedule.cores.problem import reversed_dag
from dovetail.schedule.cores.work import ChipBatch
from dovetail.workload.graph import FloatArray


def bounds_s(batch: ChipBatch) -> FloatArray:
    """Lower bounds on the makespan, in seconds: path, work of every resource, and their means over the whole graph."""
    found = np.empty(len(batch.chips), np.int64)
    dag = batch.work.dag
    compiled_loops().batch_bounds(dag, reversed_dag(dag), batch.modes, batch.stock, found)
    return np.asarray(found * batch.beat_s)
