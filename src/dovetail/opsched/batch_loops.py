"""One graph on many chips, one after another inside compiled code: a call from outside costs as much as a schedule."""

from __future__ import annotations

import numpy as np

from dovetail.opsched.moves import best_rule, critical
from dovetail.opsched.problem import HBM, TENSOR, VECTOR, Dag, Modes
from dovetail.workload.graph import IntArray

NOTHING_SHORT = -1


def batch_schedules(
    dag: Dag, modes: Modes, stock: IntArray, rules: IntArray, width: int, makespan: IntArray, short: IntArray
) -> None:
    """Into `makespan` and `short`: the best list schedule on each chip, and which cores it lacks most."""
    num = len(dag.order)
    start, mode = np.empty(num, np.int64), np.empty(num, np.int64)
    for chip in range(len(makespan)):
        own = Modes(modes.start[chip], modes.beats, modes.need, modes.share_beats)
        makespan[chip] = best_rule(dag, own, stock[chip], rules, width, start, mode)
        short[chip] = bottleneck(dag, own, stock[chip], start, mode)


def bottleneck(dag: Dag, modes: Modes, stock: IntArray, start: IntArray, mode: IntArray) -> int:
    """The kind of cores that critical operators spend most time on, those apart whose bytes set their time."""
    found = np.empty(len(start), np.int64)
    num_critical = critical(dag, modes, start, mode, found)
    waited = np.zeros(2, np.int64)
    for place in range(num_critical):
        m = mode[found[place]]
        if modes.need[m, HBM] < stock[HBM]:
            kind = TENSOR if modes.need[m, TENSOR] > 0 else VECTOR
            if modes.need[m, kind] > 0:
                waited[kind] += modes.beats[m]
    if waited[TENSOR] == 0 and waited[VECTOR] == 0:
        return NOTHING_SHORT
    return TENSOR if waited[TENSOR] >= waited[VECTOR] else VECTOR
