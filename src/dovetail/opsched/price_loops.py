"""The most that operators able to run at once earn together, as loops that Numba compiles; see `prices`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dovetail.opsched.loops import fits, take
from dovetail.opsched.problem import HBM, TENSOR, VECTOR
from dovetail.workload.graph import IntArray

MOST_AT_ONCE = 64
TOO_MANY = -1  # sets to look at


class Offers(NamedTuple):
    """Modes with what each earns a beat, the operator it is of, and operators by those that never run beside."""

    earns: IntArray
    need: IntArray
    owner: IntArray
    is_apart: IntArray


def most_left(offers: Offers, choices: IntArray, level: int, first: int, last: int, free: IntArray) -> int:
    """No set of the choices `first:last` earns more in what is free: by cores, by HBM, and all together."""
    earns, need = offers.earns, offers.need
    by_tensor, by_vector, by_hbm, no_core, no_hbm, total = 0, 0, 0, 0, 0, 0
    for place in range(first, last):
        m = choices[level, place]
        total += earns[m]
        if need[m, TENSOR] > 0:
            by_tensor = max(by_tensor, earns[m] * free[level, TENSOR] // need[m, TENSOR])
        elif need[m, VECTOR] > 0:
            by_vector = max(by_vector, earns[m] * free[level, VECTOR] // need[m, VECTOR])
        else:
            no_core += earns[m]
        if need[m, HBM] > 0:
            by_hbm = max(by_hbm, earns[m] * free[level, HBM] // need[m, HBM])
        else:
            no_hbm += earns[m]
    return min(total, by_tensor + by_vector + no_core, by_hbm + no_hbm)


def keep_beside(offers: Offers, choices: IntArray, level: int, first: int, last: int, m: int, free: IntArray) -> int:
    """Onto the next level: of the choices `first:last` those that can run beside mode m too; how many."""
    owner, is_apart, num = offers.owner, offers.is_apart, 0
    for place in range(first, last):
        other = choices[level, place]
        if is_apart[owner[m], owner[other]] == 0 and fits(free, level + 1, offers.need, other):
            choices[level + 1, num] = other
            num += 1
    return num


def dearest(offers: Offers, modes: IntArray, stock: IntArray, most_looks: int, found: IntArray) -> tuple[int, int]:
    """What the set of `modes` that earns most and can run at once earns, and how many are in it; they are in `found`.

    Depth first, past sets that cannot earn more than the best; TOO_MANY after `most_looks`. Those that earn most first.
    """
    choices = np.empty((MOST_AT_ONCE + 1, len(modes)), np.int64)
    num_choices, place = np.zeros(MOST_AT_ONCE + 1, np.int64), np.zeros(MOST_AT_ONCE + 1, np.int64)
    free, earned = np.empty((MOST_AT_ONCE + 1, len(stock)), np.int64), np.zeros(MOST_AT_ONCE + 1, np.int64)
    choices[0], num_choices[0], free[0] = modes, len(modes), stock
    level, best, num_best, looks = 0, 0, 0, 0
    while level >= 0:
        first, last = place[level], num_choices[level]
        if level == MOST_AT_ONCE or looks == most_looks:
            return TOO_MANY, 0
        looks += 1
        if earned[level] + most_left(offers, choices, level, first, last, free) <= best:
            level -= 1
            continue
        m = choices[level, first]
        place[level] += 1
        free[level + 1] = free[level]
        take(free, level + 1, offers.need, m)
        num_choices[level + 1] = keep_beside(offers, choices, level, first + 1, last, m, free)
        place[level + 1], earned[level + 1] = 0, earned[level] + offers.earns[m]
        level += 1
        if earned[level] > best:
            best, num_best = earned[level], level
            for at in range(level):
                found[at] = choices[at, place[at] - 1]
    return best, num_best
