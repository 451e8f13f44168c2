"""Hand-overs between neighbouring stages by where they lie: within a pool of the cluster, or between two.

A hop is of the kind of the pool that both stages are on, and of a kind of its own, the last, where they are on two.
Where all devices are equal there is one pool, so one kind. No value for `stage_pool` means that.
"""

from __future__ import annotations

import numpy as np

from dovetail.workload.graph import FloatArray, IntArray

NO_HOP = -1


def num_kinds(stage_pool: tuple[int, ...]) -> int:
    return max(stage_pool) + 2 if stage_pool else 1


def hop_kinds(a: IntArray, b: IntArray, stage_pool: tuple[int, ...]) -> IntArray:
    """The kind of each hop from stage `a` to stage `b`; NO_HOP where that is the same stage."""
    pool = np.array(stage_pool or (0,) * (1 + max(int(a.max()), int(b.max()))))
    between = num_kinds(stage_pool) - 1
    return np.where(a == b, NO_HOP, np.where(pool[a] == pool[b], pool[a], between))


def hops_before(num_stages: int, stage_pool: tuple[int, ...]) -> FloatArray:
    """Hops of each kind from the first stage to each: stages by kinds."""
    stages = np.arange(num_stages)
    if not stage_pool:
        return stages[:, None].astype(np.float64)
    kinds = hop_kinds(stages[:-1], stages[1:], stage_pool) if num_stages > 1 else np.empty(0, dtype=np.int64)
    counts = np.cumsum(np.eye(num_kinds(stage_pool))[kinds], axis=0)
    return np.concatenate([np.zeros((1, num_kinds(stage_pool))), counts])


def sending_kinds(stage_pool: tuple[int, ...], *, goes_round: bool) -> tuple[IntArray, IntArray]:
    """By stage the kinds of the hops it sends over: forward to the next stage, backward to the one before.

    From the last stage to the first only where the pipeline goes round; else both ends count the one hop they have.
    """
    stages = np.arange(len(stage_pool))
    after, before = np.roll(stages, -1), np.roll(stages, 1)
    if not goes_round:
        after[-1], before[0] = before[-1], after[0]
    return hop_kinds(stages, after, stage_pool), hop_kinds(stages, before, stage_pool)
