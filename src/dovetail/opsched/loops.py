"""The hot loops of operator scheduling: plain Python that Numba compiles (see `compiled`), so that both must agree.

Only whole numbers, so compiled and plain runs give the same schedule bit by bit. Nothing here is called from outside
but through `compiled.loops` or, as the oracle of tests, directly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dovetail.opsched.problem import Dag, Modes
from dovetail.workload.graph import IntArray

DYNAMIC = -1  # the mode is chosen when the operator starts: the shortest that fits
PATIENCE = 3  # a dynamic mode may take so many times the shortest before waiting is better
NUM_WEIGHTS = 8  # steps between the shortest mode and the one of least area
READY, RUNNING, LEFT = (
    0,
    2,
    4,
)  # rows of a heap's keys, behind each its items; and where `filled` says how many are left


class State(NamedTuple):
    """Where a list schedule stands: heaps of what is ready and what runs, their `filled`, and what is free."""

    heap: IntArray
    filled: IntArray
    skipped: IntArray
    waiting: IntArray
    free: IntArray


class Timeline(NamedTuple):
    """What is free from each of `marks` to the next."""

    marks: IntArray
    free: IntArray


# Arrays are indexed to the last dimension and looked up once a function: Numba counts references to every view and
# every field it touches, which costs more than the work of these loops.


def push(heap: IntArray, row: int, filled: IntArray, key: int, item: int) -> None:
    """Puts (key, item) on the heap whose keys are in `row`, the least key on top."""
    here = filled[row]
    filled[row] += 1
    while here > 0:
        above = (here - 1) >> 1
        if heap[row, above] < key or (heap[row, above] == key and heap[row + 1, above] <= item):
            break
        heap[row, here], heap[row + 1, here] = heap[row, above], heap[row + 1, above]
        here = above
    heap[row, here], heap[row + 1, here] = key, item


def pop(heap: IntArray, row: int, filled: IntArray) -> None:
    """Takes the top off the heap whose keys are in `row`."""
    filled[row] -= 1
    num = filled[row]
    key, item = heap[row, num], heap[row + 1, num]
    here, below = 0, 1
    while below < num:
        if below + 1 < num and is_before(heap, row, below + 1, heap[row, below], heap[row + 1, below]):
            below += 1
        if not is_before(heap, row, below, key, item):
            break
        heap[row, here], heap[row + 1, here] = heap[row, below], heap[row + 1, below]
        here, below = below, 2 * below + 1
    heap[row, here], heap[row + 1, here] = key, item


def is_before(heap: IntArray, row: int, place: int, key: int, item: int) -> bool:
    return bool(heap[row, place] < key or (heap[row, place] == key and heap[row + 1, place] < item))


def fits(free: IntArray, row: int, need: IntArray, m: int) -> bool:
    """Whether row m of `need` fits into a row of `free`. Rows by index: a view would cost more than the comparison."""
    for what in range(free.shape[1]):  # noqa: SIM110  # Numba has no generators inside all()
        if need[m, what] > free[row, what]:
            return False
    return True


def tails(dag: Dag, beats: IntArray, found: IntArray) -> int:
    """Into `found`: from the start of each operator to the end of all that waits for it; the longest of them."""
    longest, order, edge_start, edge_to = 0, dag.order, dag.edge_start, dag.edge_to
    for place in range(len(order) - 1, -1, -1):
        i = order[place]
        behind = 0
        for edge in range(edge_start[i], edge_start[i + 1]):
            behind = max(behind, found[edge_to[edge]])
        found[i] = behind + beats[i]
        longest = max(longest, found[i])
    return longest


def weighed_modes(modes: Modes, weight: int, mode: IntArray, beats: IntArray) -> None:
    """Into `mode` and `beats`: what is least of time and area, area weighing `weight` of NUM_WEIGHTS."""
    for i in range(len(mode)):
        best, least = modes.start[i], 0
        for m in range(modes.start[i], modes.start[i + 1]):
            value = (NUM_WEIGHTS - weight) * modes.beats[m] + weight * modes.share_beats[m]
            if m == modes.start[i] or value < least:
                best, least = m, value
        mode[i] = best
        beats[i] = modes.beats[best]


def mode_to_start(
    first: int, last: int, beats: IntArray, need: IntArray, free: IntArray, chosen: int, is_alone: bool
) -> int:
    """The mode in which an operator of modes `first:last` can start now, or -1: rather later."""
    if chosen >= 0:
        return chosen if fits(free, 0, need, chosen) else -1
    for m in range(first, last):
        if not is_alone and beats[m] > PATIENCE * beats[first]:
            return -1
        if fits(free, 0, need, m):
            return m
    return -1


def take(free: IntArray, row: int, need: IntArray, m: int) -> None:
    for what in range(free.shape[1]):
        free[row, what] -= need[m, what]


def give(free: IntArray, row: int, need: IntArray, m: int) -> None:
    for what in range(free.shape[1]):
        free[row, what] += need[m, what]


def start_ready(
    modes: Modes, state: State, rank: IntArray, chosen: IntArray, now: int, start: IntArray, mode: IntArray
) -> None:
    """Starts what fits of the ready operators of highest rank; as many as `skipped` holds may be passed over."""
    first, beats, need = modes.start, modes.beats, modes.need
    heap, filled, skipped, free = state.heap, state.filled, state.skipped, state.free
    num_skipped = 0
    while filled[READY] > 0 and num_skipped < len(skipped):
        i = heap[READY + 1, 0]
        pop(heap, READY, filled)
        m = mode_to_start(first[i], first[i + 1], beats, need, free, chosen[i], filled[RUNNING] == 0)
        if m < 0:
            skipped[num_skipped] = i
            num_skipped += 1
            continue
        start[i], mode[i] = now, m
        take(free, 0, need, m)
        push(heap, RUNNING, filled, now + beats[m], i)
    for place in range(num_skipped):
        push(heap, READY, filled, -rank[skipped[place]], skipped[place])


def end_next(dag: Dag, need: IntArray, state: State, rank: IntArray, mode: IntArray) -> int:
    """Ends what runs and ends first, and readies what waited for it; when that is."""
    edge_start, edge_to = dag.edge_start, dag.edge_to
    heap, filled, waiting, free = state.heap, state.filled, state.waiting, state.free
    now = heap[RUNNING, 0]
    while filled[RUNNING] > 0 and heap[RUNNING, 0] == now:
        i = heap[RUNNING + 1, 0]
        pop(heap, RUNNING, filled)
        filled[LEFT] -= 1
        give(free, 0, need, mode[i])
        for edge in range(edge_start[i], edge_start[i + 1]):
            j = edge_to[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                push(heap, READY, filled, -rank[j], j)
    return int(now)


def parallel(
    dag: Dag,
    modes: Modes,
    stock: IntArray,
    rank: IntArray,
    chosen: IntArray,
    width: int,
    start: IntArray,
    mode: IntArray,
) -> int:
    """List scheduling: whenever something ends, start what fits of the `width` ready operators of highest rank.

    Fills `start` and `mode`; the makespan. An operator whose `chosen` mode is DYNAMIC takes the shortest that fits.
    """
    num, now, need = len(rank), 0, modes.need
    heap, filled = np.empty((4, num), np.int64), np.zeros(5, np.int64)
    filled[LEFT] = num
    waiting = dag.back_start[1:] - dag.back_start[:-1]
    state = State(heap, filled, np.empty(width, np.int64), waiting, stock.copy().reshape(1, -1))
    for i in range(num):
        if waiting[i] == 0:
            push(heap, READY, filled, -rank[i], i)
    while filled[LEFT] > 0:
        start_ready(modes, state, rank, chosen, now, start, mode)
        now = end_next(dag, need, state, rank, mode)
    return now


def first_fit(marks: IntArray, free: IntArray, num: int, earliest: int, beats: int, need: IntArray, m: int) -> int:
    """When row m of `need` is free for `beats` from `earliest` on; behind the last of `num` marks all is free."""
    here = num - 1
    while marks[here] > earliest:
        here -= 1
    begin = earliest
    while here < num and marks[here] < begin + beats:
        if not fits(free, here, need, m):
            begin = marks[here + 1]
        here += 1
    return begin


def cut(marks: IntArray, free: IntArray, num: int, at: int) -> int:
    """Makes `at` the begin of a stretch; how many there are then."""
    here = num - 1
    while marks[here] > at:
        here -= 1
    if marks[here] == at:
        return num
    for place in range(num - 1, here, -1):
        marks[place + 1] = marks[place]
        for what in range(free.shape[1]):
            free[place + 1, what] = free[place, what]
    marks[here + 1] = at
    for what in range(free.shape[1]):
        free[here + 1, what] = free[here, what]
    return num + 1


def serial(
    dag: Dag,
    modes: Modes,
    stock: IntArray,
    order: IntArray,
    mode: IntArray,
    line: Timeline,
    tail: IntArray,
    limit: int,
    start: IntArray,
) -> int:
    """Operators in `order`, each as early as its inputs and what is left of the chip allow; the makespan.

    Gives up, with more than `limit`, once an operator and the `tail` that must follow it end beyond it.
    """
    marks, free, back_start, back_to = line.marks, line.free, dag.back_start, dag.back_to
    beats, need, num, makespan = modes.beats, modes.need, 1, 0
    marks[0], free[0] = 0, stock
    for place in range(len(order)):
        i = order[place]
        m = mode[i]
        begin = 0
        for edge in range(back_start[i], back_start[i + 1]):
            begin = max(begin, start[back_to[edge]] + beats[mode[back_to[edge]]])
        if beats[m] > 0:
            begin = first_fit(marks, free, num, begin, beats[m], need, m)
            if begin + beats[m] + tail[i] > limit:
                return limit + 1
            num = cut(marks, free, num, begin)
            num = cut(marks, free, num, begin + beats[m])
            hold(marks, free, num, begin, begin + beats[m], need, m)
        start[i] = begin
        makespan = max(makespan, begin + beats[m])
    return makespan


def hold(marks: IntArray, free: IntArray, num: int, begin: int, end: int, need: IntArray, m: int) -> None:
    """Takes row m of `need` from every stretch from `begin` to `end`."""
    here = num - 1
    while here >= 0 and marks[here] >= begin:
        if marks[here] < end:
            take(free, here, need, m)
        here -= 1
