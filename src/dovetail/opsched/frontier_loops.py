"""Partial schedules grown operator by operator, as loops that Numba compiles; see docs/model/scheduling.md.

A state is a row: which operators have started (bits in two words), when the last of them did, what still runs then
(operator, end and mode, the last to end first), a bound on every schedule that goes on from it, and where it came from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dovetail.opsched.loops import fits
from dovetail.workload.graph import IntArray

STARTED, NOW, NUM_RUNNING, BOUND, SCORE, PARENT, OPERATOR, MODE, RUNNING_FROM = 0, 2, 3, 4, 5, 6, 7, 8, 9
PER_RUNNING = 3  # operator, end, mode
NUM_WORD_BITS = 62
NUM_WORDS = 2
LEAST_LEFT, NUM_LOOKED = 0, 1  # what `counters` hold: the least bound of a state left out, and how many were looked at
MOST_COMPARED = 400  # states with the same operators started that one is compared with: it only saves work
NEVER = 2**60


class Table(NamedTuple):
    """A problem for growing states: operators of no time left out, and every one before those that wait for it.

    `wide` is modes by needs with columns for conflicts, of `stocks`; `work` is operators by the least of it; `waits` is
    operators by words of all that must end before; `tail` is what must follow each, and `by_tail` the longest first.
    """

    start: IntArray
    beats: IntArray
    need: IntArray
    wide: IntArray
    stock: IntArray
    stocks: IntArray
    waits: IntArray
    tail: IntArray
    by_tail: IntArray
    shortest: IntArray
    work: IntArray


def is_bit(words: IntArray, row: int, i: int) -> bool:
    return bool((words[row, i // NUM_WORD_BITS] >> (i % NUM_WORD_BITS)) & 1)


def is_open(rows: IntArray, r: int, waits: IntArray, i: int) -> bool:
    """Whether operator i has not started in state r, and all that it waits for have."""
    if is_bit(rows, r, i):
        return False
    for word in range(NUM_WORDS):  # noqa: SIM110  # Numba has no generators inside all()
        if (rows[r, STARTED + word] & waits[i, word]) != waits[i, word]:
            return False
    return True


def earliest(rows: IntArray, r: int, table: Table, i: int, m: int, free: IntArray) -> int:
    """When operator i can start in mode m, no sooner than the last start of state r."""
    need, waits, begin = table.need, table.waits, rows[r, NOW]
    num_running = rows[r, NUM_RUNNING]
    for k in range(num_running):  # the last to end first, so the first that it waits for says when
        at = RUNNING_FROM + PER_RUNNING * k
        if is_bit(waits, i, rows[r, at]):
            begin = max(begin, rows[r, at + 1])
            break
    for what in range(len(free)):
        free[what] = table.stock[what] - need[m, what]
    for k in range(num_running):
        at = RUNNING_FROM + PER_RUNNING * k
        if rows[r, at + 1] <= begin:
            break
        other = rows[r, at + 2]
        for what in range(len(free)):
            free[what] -= need[other, what]
            if free[what] < 0:
                return int(rows[r, at + 1])
    return int(begin)


def starts_of(rows: IntArray, r: int, table: Table, begin: IntArray, free: IntArray) -> int:
    """Into `begin`: when each mode of each open operator can start, or NEVER; the least end of them all."""
    start, beats, least_end = table.start, table.beats, NEVER
    for i in range(len(start) - 1):
        is_ready = is_open(rows, r, table.waits, i)
        for m in range(start[i], start[i + 1]):
            begin[m] = earliest(rows, r, table, i, m, free) if is_ready else NEVER
            if is_ready:
                least_end = min(least_end, begin[m] + beats[m])
    return least_end


def follow(rows: IntArray, r: int, i: int, m: int, begin: int, end: int, found: IntArray, f: int) -> bool:
    """Writes what state r becomes once operator i starts in mode m; False where too many run at once for a row."""
    most = (found.shape[1] - RUNNING_FROM) // PER_RUNNING
    for word in range(NUM_WORDS):
        found[f, STARTED + word] = rows[r, STARTED + word]
    found[f, STARTED + i // NUM_WORD_BITS] |= 1 << (i % NUM_WORD_BITS)
    num, is_placed = 0, False
    for k in range(rows[r, NUM_RUNNING] + 1):
        at = RUNNING_FROM + PER_RUNNING * k
        is_last = k == rows[r, NUM_RUNNING] or rows[r, at + 1] <= begin
        if not is_placed and (is_last or rows[r, at + 1] < end):
            if num == most:
                return False
            to = RUNNING_FROM + PER_RUNNING * num
            found[f, to], found[f, to + 1], found[f, to + 2] = i, end, m
            num, is_placed = num + 1, True
        if is_last:
            break
        if num == most:
            return False
        to = RUNNING_FROM + PER_RUNNING * num
        found[f, to], found[f, to + 1], found[f, to + 2] = rows[r, at], rows[r, at + 1], rows[r, at + 2]
        num += 1
    found[f, NOW], found[f, NUM_RUNNING], found[f, PARENT] = begin, num, r
    found[f, OPERATOR], found[f, MODE] = i, m
    return True


def runs(found: IntArray, f: int, table: Table, held: IntArray) -> int:
    """Into `held`: where in its row state f says that an operator runs, or -1; the latest end with its tail."""
    bound = 0
    for i in range(len(held)):
        held[i] = -1
    for k in range(found[f, NUM_RUNNING]):
        at = RUNNING_FROM + PER_RUNNING * k
        held[found[f, at]] = at
        bound = max(bound, found[f, at + 1] + table.tail[found[f, at]])
    return bound


def judge(found: IntArray, f: int, table: Table, limit: int, done: IntArray, held: IntArray) -> int:
    """Into state f: a score of what is left to do; its bound, or one of at least `limit`.

    What has started and runs still, and what has not, ends before its tail: for the operators of long tails together,
    the work that is left over what there is, from the last start on, and the least of their tails.
    """
    tail, by_tail, stocks, work, wide = table.tail, table.by_tail, table.stocks, table.work, table.wide
    num_columns, now, score = len(stocks), found[f, NOW], 0
    bound = runs(found, f, table, held)
    for column in range(num_columns):
        done[column] = 0
    for place in range(len(by_tail)):
        i = by_tail[place]
        at = held[i]
        if at < 0 and is_bit(found, f, i):
            continue
        room = max(bound - now - tail[i], 0 if at >= 0 else table.shortest[i])
        for column in range(num_columns):
            if at >= 0:
                done[column] += (found[f, at + 1] - now) * wide[found[f, at + 2], column]
            else:
                done[column] += work[i, column]
            if done[column] > room * stocks[column]:
                room = -(-done[column] // stocks[column])
        bound = max(bound, now + room + tail[i])
        if bound >= limit:
            break
    for column in range(num_columns):
        score += done[column] // stocks[column]
    found[f, SCORE] = 4 * num_columns * bound + num_columns * now + score
    return int(bound)


def grow(rows: IntArray, first: int, last: int, table: Table, limit: int, found: IntArray, counters: IntArray) -> int:
    """Into `found`: states that follow from states `first:last` by one more start and may end before `limit`; how many.

    An operator starts no sooner than the last start, as early as it then can. It is not started where another could
    both start and end before: that one may as well come first.
    """
    begin, free = np.empty(len(table.beats), np.int64), np.empty(len(table.stock), np.int64)
    done, held = np.empty(len(table.stocks), np.int64), np.empty(len(table.tail), np.int64)
    num, start, beats, tail = 0, table.start, table.beats, table.tail
    for r in range(first, last):
        least_end = starts_of(rows, r, table, begin, free)
        for i in range(len(tail)):
            if begin[start[i]] == NEVER:
                continue
            for m in range(start[i], start[i + 1]):
                if begin[m] >= least_end:
                    continue
                end = begin[m] + beats[m]
                bound = max(end + tail[i], rows[r, BOUND])
                counters[NUM_LOOKED] += 1
                if bound < limit and follow(rows, r, i, m, begin[m], end, found, num):
                    bound = max(bound, judge(found, num, table, limit, done, held))
                    found[num, BOUND] = bound
                    if bound < limit:
                        num += 1
                        continue
                counters[LEAST_LEFT] = min(counters[LEAST_LEFT], bound)
    return num


def is_no_worse(rows: IntArray, a: int, b: int, need: IntArray) -> bool:
    """Whether all that state b allows state a allows too: the same have started, and at b's time a holds no more.

    That is, every operator that a still holds then b holds as long, and as much of everything.
    """
    for k in range(rows[a, NUM_RUNNING]):
        at = RUNNING_FROM + PER_RUNNING * k
        if rows[a, at + 1] <= rows[b, NOW]:
            break
        if not holds(rows, b, rows[a, at], rows[a, at + 1], rows[a, at + 2], need):
            return False
    return True


def holds(rows: IntArray, r: int, i: int, end: int, m: int, need: IntArray) -> bool:
    """Whether state r holds operator i until `end` at least, with no less of anything than mode m."""
    for k in range(rows[r, NUM_RUNNING]):
        at = RUNNING_FROM + PER_RUNNING * k
        if rows[r, at] == i:
            if rows[r, at + 1] < end:
                return False
            return fits(need, rows[r, at + 2], need, m)
    return False


def mark_best(rows: IntArray, order: IntArray, need: IntArray, is_kept: IntArray) -> None:
    """Into `is_kept`: 1 for states that no other makes useless; `order` is by what has started, then by time."""
    first = 0
    for place in range(len(order)):
        b = order[place]
        for word in range(NUM_WORDS):
            if rows[order[first], STARTED + word] != rows[b, STARTED + word]:
                first = place
        is_kept[b] = 1
        last = max(first, place - MOST_COMPARED)
        for earlier in range(place - 1, last - 1, -1):
            a = order[earlier]
            if is_kept[a] == 1 and is_no_worse(rows, a, b, need):
                is_kept[b] = 0
                break
