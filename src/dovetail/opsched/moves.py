"""The loops around the loops: rules tried in turn, schedules pushed to and fro, and a short search of neighbours.

Compiled like `loops`, by the same rules: whole numbers only, and nothing that plain Python would do differently.
"""

from __future__ import annotations

import numpy as np

from dovetail.opsched.loops import (
    DYNAMIC,
    Timeline,
    serial,
    tails,
    weighed_modes,
)
from dovetail.opsched.problem import Dag, Modes
from dovetail.opsched.small_loops import listed
from dovetail.workload.graph import IntArray

NUM_TIGHTENINGS = 3  # rounds of right and left justification, at most
FAR = 2**62
TIGHT_OF = 3  # of so many changes all but one are of operators that the makespan waits for
WORSE_SHIFT = 7  # a first step may be worse by 2^-8 of the makespan; the allowance shrinks to nothing


def ranked(dag: Dag, modes: Modes, weight: int, is_dynamic: bool, rank: IntArray, chosen: IntArray) -> None:
    """Into `rank` and `chosen`: the longest way to the end in modes of a weight; and these modes, or none yet."""
    beats = np.empty(len(rank), np.int64)
    weighed_modes(modes, weight, chosen, beats)
    tails(dag, beats, rank)
    if is_dynamic:
        for i in range(len(chosen)):
            chosen[i] = DYNAMIC


def best_rule(
    dag: Dag, modes: Modes, stock: IntArray, rules: IntArray, width: int, start: IntArray, mode: IntArray
) -> int:
    """The best list schedule over `rules`, rows of (weight, is it dynamic); fills `start` and `mode`."""
    num, best = len(start), -1
    rank, chosen = np.empty(num, np.int64), np.empty(num, np.int64)
    trial_start, trial_mode = np.empty(num, np.int64), np.empty(num, np.int64)
    for rule in range(len(rules)):
        ranked(dag, modes, rules[rule, 0], rules[rule, 1] == 1, rank, chosen)
        makespan = listed(dag, modes, stock, rank, chosen, width, trial_start, trial_mode)
        if best < 0 or makespan < best:
            best = makespan
            start[:] = trial_start
            mode[:] = trial_mode
    return best


def by_key(keys: IntArray, dag: Dag, order: IntArray) -> None:
    """Into `order`: operators by rising key, those of one key as the graph orders them."""
    num = len(keys)
    place_of = np.empty(num, np.int64)
    for place in range(num):
        place_of[dag.order[place]] = place
    wide = np.int64(num)
    mixed = np.empty(num, np.int64)
    for i in range(num):
        mixed[i] = keys[i] * wide + place_of[i]
    order[:] = np.argsort(mixed)


def tightened(
    dag: Dag,
    back: Dag,
    modes: Modes,
    stock: IntArray,
    line: Timeline,
    start: IntArray,
    mode: IntArray,
    makespan: int,
) -> int:
    """Pushes a schedule to its end and back to its start while that makes it shorter; the makespan."""
    num = len(start)
    order = np.empty(num, np.int64)
    late, early, no_tail = np.empty(num, np.int64), np.empty(num, np.int64), np.zeros(num, np.int64)
    for _ in range(NUM_TIGHTENINGS):
        for i in range(num):
            late[i] = makespan - start[i] - modes.beats[mode[i]]
        by_key(late, back, order)
        length = serial(back, modes, stock, order, mode, line, no_tail, FAR, late)
        for i in range(num):
            early[i] = length - late[i] - modes.beats[mode[i]]
        by_key(early, dag, order)
        shorter = serial(dag, modes, stock, order, mode, line, no_tail, FAR, early)
        if shorter >= makespan:
            break
        makespan = shorter
        start[:] = early
    return makespan


def drawn(seed: IntArray, below: int) -> int:
    """A number from 0 to below `below`, and the next `seed` (the linear congruence of ANSI C, its high bits)."""
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return int(((seed[0] >> 8) * below) >> 23)


def moved(dag: Dag, seed: IntArray, i: int, order: IntArray) -> None:
    """Moves operator i in `order` to another place between those it waits for and those that wait for it."""
    num = len(order)
    place_of = np.empty(num, np.int64)
    for place in range(num):
        place_of[order[place]] = place
    low, high = 0, num - 1
    for edge in range(dag.back_start[i], dag.back_start[i + 1]):
        low = max(low, place_of[dag.back_to[edge]] + 1)
    for edge in range(dag.edge_start[i], dag.edge_start[i + 1]):
        high = min(high, place_of[dag.edge_to[edge]] - 1)
    here, there = place_of[i], low + drawn(seed, high - low + 1)
    step = 1 if there > here else -1
    while here != there:
        order[here] = order[here + step]
        here += step
    order[there] = i


def searched(
    dag: Dag,
    modes: Modes,
    stock: IntArray,
    line: Timeline,
    num_tries: int,
    goal: int,
    start: IntArray,
    mode: IntArray,
    makespan: int,
) -> int:
    """Tries neighbours, another place or another mode of one operator, and keeps the best; stops at `goal`."""
    seed, here, allowed = np.full(1, 1, np.int64), makespan, makespan >> WORSE_SHIFT
    rows = np.empty((7, len(start)), np.int64)
    order, new_order, here_mode, new_mode, trial, tail = rows[0], rows[1], mode.copy(), rows[3], rows[4], rows[5]
    shortest_tails(dag, modes, tail)
    by_key(start, dag, order)
    num_tight = critical(dag, modes, start, mode, rows[6])
    for attempt in range(num_tries if makespan > goal else 0):
        new_order[:], new_mode[:] = order, here_mode
        change(dag, modes, seed, rows[6, :num_tight], new_order, new_mode)
        limit = here + allowed * (num_tries - attempt) // (2 * num_tries)
        length = serial(dag, modes, stock, new_order, new_mode, line, tail, limit, trial)
        if length <= limit:
            here, order[:], here_mode[:] = length, new_order, new_mode
            num_tight = critical(dag, modes, trial, new_mode, rows[6])
        if length < makespan:
            makespan, start[:], mode[:] = length, trial, new_mode
            if makespan <= goal:
                break
    return makespan


def shortest_tails(dag: Dag, modes: Modes, tail: IntArray) -> None:
    """Into `tail`: what must follow each operator, at its shortest."""
    beats = np.empty(len(tail), np.int64)
    for i in range(len(tail)):
        beats[i] = modes.beats[modes.start[i]]
    tails(dag, beats, tail)
    for i in range(len(tail)):
        tail[i] -= beats[i]


def critical(dag: Dag, modes: Modes, start: IntArray, mode: IntArray, found: IntArray) -> int:
    """Into `found`: operators that end with the schedule, or when a critical one starts; how many there are."""
    num, num_found, longest, beats = len(start), 0, 0, modes.beats
    order, end = np.empty(num, np.int64), np.empty(num, np.int64)
    by_key(start, dag, order)
    for i in range(num):
        end[i] = start[i] + beats[mode[i]]
        longest = max(longest, end[i])
    for place in range(num - 1, -1, -1):
        i = order[place]
        is_tight = end[i] == longest
        for other in range(num_found):
            if start[found[other]] == end[i]:
                is_tight = True
        if is_tight:
            found[num_found] = i
            num_found += 1
    return num_found


def change(dag: Dag, modes: Modes, seed: IntArray, tight: IntArray, order: IntArray, mode: IntArray) -> None:
    """Another mode of one operator, or another place; mostly of one that the makespan waits for."""
    i = tight[drawn(seed, len(tight))] if drawn(seed, TIGHT_OF) > 0 else drawn(seed, len(order))
    num_modes = modes.start[i + 1] - modes.start[i]
    if num_modes > 1 and drawn(seed, 2) == 0:
        mode[i] = modes.start[i] + drawn(seed, num_modes)
    else:
        moved(dag, seed, i, order)
