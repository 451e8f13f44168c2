"""Lower bounds on a makespan, as loops that Numba compiles; see docs/model/scheduling.md for why they hold."""

from __future__ import annotations

import numpy as np

from dovetail.opsched.problem import Dag, Modes
from dovetail.workload.graph import IntArray

NUM_MIXES = 8  # steps between a bound by the longest path and one by work


def longest_in(dag: Dag, beats: IntArray, is_in: IntArray, found: IntArray) -> int:
    """The longest path through operators that are in; into `found` the longest from each on, its own time included."""
    longest, order, edge_start, edge_to = 0, dag.order, dag.edge_start, dag.edge_to
    for place in range(len(order) - 1, -1, -1):
        i = order[place]
        behind = 0
        for edge in range(edge_start[i], edge_start[i + 1]):
            behind = max(behind, found[edge_to[edge]])
        found[i] = behind + (beats[i] if is_in[i] else 0)
        longest = max(longest, found[i])
    return longest


def weighed_least(modes: Modes, what: int, whole: int, mix: int, value: IntArray) -> None:
    """Into `value`: the least mean of time and work over `whole` of each operator, work weighing `mix` of NUM_MIXES."""
    start, beats, need = modes.start, modes.beats, modes.need
    for i in range(len(value)):
        least = -1
        for m in range(start[i], start[i + 1]):
            mean = (NUM_MIXES - mix) * beats[m] * whole + mix * beats[m] * need[m, what]
            if least < 0 or mean < least:
                least = mean
        value[i] = least


def mean_bound(
    dag: Dag, value: IntArray, work: IntArray, is_in: IntArray, mix: int, whole: int, found: IntArray
) -> int:
    """A bound on the operators that are in, from their `value` on a path and `work` off it (times NUM_MIXES).

    A schedule is at least as long as any path, and as all work over what there is; so as any mean of the two. An
    operator adds at least `value` on the path and `mix` of its least work elsewhere, whatever its mode.
    """
    total = 0
    for i in range(len(value)):
        found[i] = value[i] - mix * work[i]
        total += mix * work[i] if is_in[i] else 0
    extra = found.copy()
    longest = longest_in(dag, extra, is_in, found) + total
    return -(-longest // (NUM_MIXES * whole))


def heads_and_tails(dag: Dag, back: Dag, modes: Modes, head: IntArray, tail: IntArray) -> int:
    """Into `head` and `tail`: what must pass before and after each operator; the longest path."""
    num = len(head)
    beats, is_in = np.empty(num, np.int64), np.ones(num, np.int64)
    for i in range(num):
        beats[i] = modes.beats[modes.start[i]]
    longest = longest_in(dag, beats, is_in, tail)
    longest_in(back, beats, is_in, head)
    for i in range(num):
        head[i] -= beats[i]
        tail[i] -= beats[i]
    return longest


def window_bound(
    dag: Dag, head: IntArray, tail: IntArray, value: IntArray, work: IntArray, mix: int, whole: int, is_square: bool
) -> int:
    """The best over windows: those that start after a head and end before a tail share what lies between.

    Every pair of a head and a tail where `is_square`; else windows that begin with the first or end with the last.
    """
    num, best = len(head), 0
    is_in, found = np.empty(num, np.int64), np.empty(num, np.int64)
    for first in range(num):
        for last in range(num):
            after, before = head[first], tail[last]
            if before > tail[first] or after > head[last] or not (is_square or after == 0 or before == 0):
                continue
            for i in range(num):
                is_in[i] = 1 if head[i] >= after and tail[i] >= before else 0
            best = max(best, after + before + mean_bound(dag, value, work, is_in, mix, whole, found))
    return best


def lower_bound(dag: Dag, back: Dag, modes: Modes, stock: IntArray, most_square: int, most_windows: int) -> int:
    """The most of the longest path, of the work of every resource, and of their means; in windows of few operators."""
    num = len(modes.start) - 1
    head, tail = np.empty(num, np.int64), np.empty(num, np.int64)
    best = heads_and_tails(dag, back, modes, head, tail)
    value, work, found = np.empty(num, np.int64), np.empty(num, np.int64), np.empty(num, np.int64)
    everything = np.ones(num, np.int64)
    for what in range(len(stock)):
        whole = stock[what]
        if whole <= 0:
            continue
        weighed_least(modes, what, whole, NUM_MIXES, work)
        for i in range(num):
            work[i] //= NUM_MIXES
        step = 1 if num <= most_windows else NUM_MIXES // 2
        for mix in range(step, NUM_MIXES + 1, step):
            weighed_least(modes, what, whole, mix, value)
            best = max(best, mean_bound(dag, value, work, everything, mix, whole, found))
            if num <= most_windows and mix % 2 == 0:
                best = max(best, window_bound(dag, head, tail, value, work, mix, whole, num <= most_square))
    return best
