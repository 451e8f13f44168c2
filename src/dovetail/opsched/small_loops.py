"""List scheduling of small graphs: the schedule of `loops.parallel`, with sorted rows in place of heaps.

A layer has a handful of operators ready or running at once, and then moving them along a row costs half of what
heaps do. A batch of chips spends its time here.
"""

from __future__ import annotations

import numpy as np

from dovetail.opsched.loops import DYNAMIC, PATIENCE, parallel
from dovetail.opsched.problem import RESOURCES, Dag, Modes
from dovetail.workload.graph import IntArray

NUM_RESOURCES = len(RESOURCES)
READY_ROW, RUNNING_ROW, ENDS_ROW, WAITING_ROW = 0, 1, 2, 3  # of `rows`
NUM_READY, NUM_RUN = NUM_RESOURCES, NUM_RESOURCES + 1  # in `held`, behind what is free of each resource
# Compiled into their callers: a call counts references to every array it is given, which costs more than the work.
PARTS = ("start_listed", "end_listed")
MOST_SMALL = 256  # operators: rows of more than so many ready at once take longer than heaps


def listed(
    dag: Dag,
    modes: Modes,
    stock: IntArray,
    rank: IntArray,
    chosen: IntArray,
    width: int,
    start: IntArray,
    mode: IntArray,
) -> int:
    """What `parallel` gives, by whichever way is faster for so many operators."""
    if len(rank) > MOST_SMALL:
        return parallel(dag, modes, stock, rank, chosen, width, start, mode)
    return small_parallel(dag, modes, stock, rank, chosen, width, start, mode)


def fitting(first: int, last: int, beats: IntArray, need: IntArray, free: IntArray, num_running: int) -> int:
    """The first of modes `first:last` that fits into what is free, or -1; none that takes too long while others run."""
    for m in range(first, last):
        if num_running > 0 and beats[m] > PATIENCE * beats[first]:
            return -1
        does_fit = True
        for what in range(NUM_RESOURCES):
            does_fit = does_fit and need[m, what] <= free[what]
        if does_fit:
            return m
    return -1


def insert_ready(rows: IntArray, num_ready: int, rank: IntArray, i: int) -> None:
    """Puts operator i into the row of `num_ready`, the highest rank first, the least number of equals."""
    here, own = num_ready, rank[i]
    while here > 0:
        other = rows[READY_ROW, here - 1]
        if rank[other] > own or (rank[other] == own and other < i):
            break
        rows[READY_ROW, here] = other
        here -= 1
    rows[READY_ROW, here] = i


def insert_running(rows: IntArray, num_running: int, end: int, i: int) -> None:
    """Puts operator i into the row of what runs, the last to end first, the greatest number of equals."""
    here = num_running
    while here > 0:
        other_end, other = rows[ENDS_ROW, here - 1], rows[RUNNING_ROW, here - 1]
        if other_end > end or (other_end == end and other > i):
            break
        rows[ENDS_ROW, here], rows[RUNNING_ROW, here] = other_end, other
        here -= 1
    rows[ENDS_ROW, here], rows[RUNNING_ROW, here] = end, i


def start_listed(
    first: IntArray,
    beats: IntArray,
    need: IntArray,
    rows: IntArray,
    held: IntArray,
    chosen: IntArray,
    width: int,
    now: int,
    start: IntArray,
    mode: IntArray,
) -> None:
    """Starts what fits of the ready operators of highest rank; up to `width` may be passed over."""
    num_skipped, num_running = 0, held[NUM_RUN]
    for place in range(held[NUM_READY]):
        i, m = rows[READY_ROW, place], -1
        if num_skipped < width:
            low, high = first[i], first[i + 1]
            if chosen[i] != DYNAMIC:
                low, high = chosen[i], chosen[i] + 1
            m = fitting(low, high, beats, need, held, num_running)
        if m < 0:
            rows[READY_ROW, num_skipped] = i
            num_skipped += 1
            continue
        start[i], mode[i] = now, m
        for what in range(NUM_RESOURCES):
            held[what] -= need[m, what]
        insert_running(rows, num_running, now + beats[m], i)
        num_running += 1
    held[NUM_READY], held[NUM_RUN] = num_skipped, num_running


def end_listed(
    edge_start: IntArray,
    edge_to: IntArray,
    need: IntArray,
    rows: IntArray,
    held: IntArray,
    rank: IntArray,
    mode: IntArray,
) -> int:
    """Ends what runs and ends first, and readies what waited for it; when that is."""
    num_ready, num_running = held[NUM_READY], held[NUM_RUN]
    now = rows[ENDS_ROW, num_running - 1]
    while num_running > 0 and rows[ENDS_ROW, num_running - 1] == now:
        num_running -= 1
        i = rows[RUNNING_ROW, num_running]
        m = mode[i]
        for what in range(NUM_RESOURCES):
            held[what] += need[m, what]
        for edge in range(edge_start[i], edge_start[i + 1]):
            j = edge_to[edge]
            rows[WAITING_ROW, j] -= 1
            if rows[WAITING_ROW, j] == 0:
                insert_ready(rows, num_ready, rank, j)
                num_ready += 1
    held[NUM_READY], held[NUM_RUN] = num_ready, num_running
    return int(now)


def small_parallel(
    dag: Dag,
    modes: Modes,
    stock: IntArray,
    rank: IntArray,
    chosen: IntArray,
    width: int,
    start: IntArray,
    mode: IntArray,
) -> int:
    """List scheduling as `parallel` does it, operator by operator and tie by tie."""
    num, now, first, beats, need = len(rank), 0, modes.start, modes.beats, modes.need
    edge_start, edge_to, back_start = dag.edge_start, dag.edge_to, dag.back_start
    rows, held = np.empty((4, num), np.int64), np.empty(NUM_RESOURCES + 2, np.int64)
    held[NUM_READY], held[NUM_RUN] = 0, 0
    for what in range(NUM_RESOURCES):
        held[what] = stock[what]
    for i in range(num):
        rows[WAITING_ROW, i] = back_start[i + 1] - back_start[i]
        if rows[WAITING_ROW, i] == 0:
            insert_ready(rows, held[NUM_READY], rank, i)
            held[NUM_READY] += 1
    while held[NUM_READY] + held[NUM_RUN] > 0:
        start_listed(first, beats, need, rows, held, chosen, width, now, start, mode)
        now = end_listed(edge_start, edge_to, need, rows, held, rank, mode)
    return now
