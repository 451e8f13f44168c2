"""Makespans of one graph on a whole batch of chips: what a search over chips asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.opsched.compiled import compiled_loops
from dovetail.opsched.fast import QUICK, Effort
from dovetail.opsched.work import ChipBatch
from dovetail.workload.graph import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchTimes:
    """Of each chip: the makespan, and the cores that critical operators lack (TENSOR, VECTOR, or neither: -1)."""

    makespan_s: FloatArray
    bottleneck: IntArray


def scheduled(batch: ChipBatch, effort: Effort = QUICK) -> BatchTimes:
    """The best list schedule of `effort`'s rules on each chip; nothing is tightened or searched."""
    found, bottleneck = np.empty(len(batch.chips), np.int64), np.empty(len(batch.chips), np.int64)
    rules = np.array(effort.rules, dtype=np.int64)
    loops = compiled_loops()
    loops.batch_schedules(batch.work.dag, batch.modes, batch.stock, rules, effort.width, found, bottleneck)
    return BatchTimes(makespan_s=found * batch.beat_s, bottleneck=bottleneck)
