"""PHAZE's outer loop: which chips it looks at before it stops, were their throughputs known.

The rule is that of its released code (MIT, commit fed7cde). It looks at about a hundred of 29,360 chips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dovetail.workload.graph import FloatArray, IntArray

BUCKET_MM2 = 0.01  # chips of one bucket are looked at together
NUM_FIRST = 128  # chips whose throughputs are computed first, where they cost something; then twice as many
NUM_LEVEL = 5  # buckets in a row whose best chips do not improve, after which it stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What PHAZE's outer loop sees before it stops: chips and buckets looked at, and the best chip among them."""

    num_chips: int
    num_buckets: int
    best_row: int


def stopped(area_mm2: FloatArray, throughput: FloatArray) -> Stopped:  # style: in any unit, 0 where nothing fits
    """PHAZE's stop rule over chips of these areas, whose best plans have these throughputs.

    Buckets of 0.01 mm2 are looked at from the largest down. The loop ends as soon as, of the last five, none has a
    better best chip than the one before it, though it be worse than all that were seen earlier.
    """
    bucket = np.floor(area_mm2 / BUCKET_MM2).astype(np.int64)
    order = np.argsort(-bucket, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(bucket[order]) != 0])
    best = np.maximum.reduceat(throughput[order], starts)
    rises = np.flatnonzero(np.r_[True, best[1:] > best[:-1], np.full(NUM_LEVEL, True)])
    [first, *_] = np.flatnonzero(np.diff(rises) >= NUM_LEVEL).tolist() or [len(rises) - NUM_LEVEL - 1]
    num_buckets = min(int(rises[first]) + NUM_LEVEL, len(best))
    num_chips = int(starts[num_buckets]) if num_buckets < len(starts) else len(order)
    looked_at = order[:num_chips]
    return Stopped(
        num_chips=num_chips, num_buckets=num_buckets, best_row=int(looked_at[np.argmax(throughput[looked_at])])
    )


def stopped_among(area_mm2: FloatArray, throughputs_of: Callable[[IntArray], FloatArray]) -> Stopped:
    """`stopped`, asking for the throughputs of no more chips, by their places, than about twice what it looks at."""
    bucket = np.floor(area_mm2 / BUCKET_MM2).astype(np.int64)
    order = np.argsort(-bucket, kind="stable")
    ends = np.flatnonzero(np.r_[np.diff(bucket[order]) != 0, True]) + 1  # of whole buckets
    throughput, num_wanted = np.zeros(0), NUM_FIRST
    while True:
        num_known = int(ends[min(int(np.searchsorted(ends, num_wanted)), len(ends) - 1)])
        throughput = np.r_[throughput, throughputs_of(order[len(throughput) : num_known])]
        known = order[:num_known]
        found = stopped(area_mm2[known], throughput)
        if found.num_chips < num_known or num_known == len(order):
            return replace(found, best_row=int(known[found.best_row]))
        num_wanted *= 2
