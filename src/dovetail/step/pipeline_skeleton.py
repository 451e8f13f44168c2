"""The length of a pipeline from the first and last pass of every kind: its longest paths in closed form.

Such a path follows one microbatch between devices, stays on a device while that is the one all wait
for, and follows another microbatch to the end. So it is enough to look at the first and the last pass of each kind
of each chunk, joined by what the device does between them and by what they need. All that lies on such a path lies on
one of the schedule, so the result is never too long; it is exact for equal stages and free transfers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.step.hops import NO_HOP, hop_kinds
from dovetail.step.pass_order import NOTHING, Kind, PassOrder, Steps, steps_of
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

PLAN_BATCH = 2_000  # what keeps their passes in a core's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """First and last passes in an order in which each comes after all it waits for; one row a pass.

    `needs` are rows, NOTHING for none; `before` is the row of the device's pass before. `counts` are passes by kind
    that the device does between the two, `own` those of the row itself; where `is_middle`, microbatches left out come
    on top.
    """

    device: IntArray
    before: IntArray
    needs: IntArray
    counts: IntArray
    own: IntArray
    is_middle: BoolArray
    chunks_per_device: int


def skeleton(order: PassOrder) -> Skeleton:
    """The first and last passes of `order`."""
    steps = steps_of(order)
    kept = [
        np.unique(step.of_rows(len(passes))[_first_and_last(passes)])
        for passes, step in zip(order.devices, steps, strict=True)
    ]
    num_kept = [len(rows) for rows in kept]
    device = np.repeat(np.arange(len(kept)), num_kept)
    starts = np.concatenate(([0], np.cumsum(num_kept)[:-1]))
    before = np.arange(len(device)) - 1
    before[starts] = NOTHING
    needs = _kept_needs(steps, kept)
    rank = _ranks(num_kept, needs)
    sequence = np.argsort(rank)
    places = np.append(rank, NOTHING)  # NOTHING stays so
    counts, is_middle = (np.concatenate(column) for column in zip(*map(_between, steps, kept), strict=True))
    return Skeleton(
        device=device[sequence],
        before=places[before[sequence]],
        needs=places[needs[sequence]],
        counts=counts[sequence],
        own=np.concatenate([step.counts[rows] for step, rows in zip(steps, kept, strict=True)])[sequence],
        is_middle=is_middle[sequence],
        chunks_per_device=order.chunks_per_device,
    )


def _first_and_last(passes: IntArray) -> IntArray:
    """Rows of the first and the last pass of each kind (whole and half backward passes alike) and chunk."""
    way = np.where(passes[:, 0] == Kind.INPUT, Kind.BACKWARD, passes[:, 0])
    kinds = way * (passes[:, 1].max() + 1) + passes[:, 1]
    rows = np.arange(len(kinds))
    last, first = np.full((2, int(kinds.max()) + 1), NOTHING)
    last[kinds] = rows
    first[kinds[::-1]] = rows[::-1]
    return np.concatenate([first[first != NOTHING], last[last != NOTHING]])


def _kept_needs(steps: tuple[Steps, ...], kept: list[IntArray]) -> IntArray:
    """What each kept step needs, as its place among all kept; NOTHING where that is not kept."""
    gives = np.concatenate([step.gives[rows] for step, rows in zip(steps, kept, strict=True)])
    needs = np.concatenate([step.needs[rows] for step, rows in zip(steps, kept, strict=True)])
    giver = np.full(max(int(gives.max()), int(needs.max())) + 2, NOTHING)
    for column in gives.T:
        giver[column] = np.arange(len(gives))
    giver[NOTHING] = NOTHING
    return np.asarray(giver[needs])


def _ranks(num_kept: list[int], needs: IntArray) -> IntArray:
    """Place of each row in an order in which it follows the device's row before it and those it needs."""
    ends = np.cumsum(num_kept).tolist()
    at = [end - num for end, num in zip(ends, num_kept, strict=True)]
    listed, placed = needs.tolist(), 0
    rank = [NOTHING] * len(needs) + [0]  # the last one is what a row that needs nothing waits for
    while placed < len(needs):
        were = placed
        for device, end in enumerate(ends):
            row = at[device]
            while row < end and rank[listed[row][0]] != NOTHING and rank[listed[row][1]] != NOTHING:
                rank[row] = placed
                placed, row = placed + 1, row + 1
            at[device] = row
        assert placed > were, "the order of passes deadlocks"
    return np.array(rank[:-1])


def _between(step: Steps, kept: IntArray) -> tuple[IntArray, BoolArray]:
    """Passes by kind between each kept step and the kept one before, and whether the middle of all lies there."""
    sums = np.concatenate([np.zeros((1, step.counts.shape[1]), dtype=np.int64), np.cumsum(step.counts, axis=0)])
    seen = np.concatenate(([-1], kept[:-1]))
    middle = len(step.counts) // 2
    return sums[kept] - sums[seen + 1], (seen < middle) & (middle <= kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """A skeleton whose devices take what their run of equal devices takes.

    A row of `stretches` is a sum of what passes by kind and run, and microbatches left out by run, take; `passes` are,
    row by row, the one before, the stretch between (NOTHING for none), the row's own, and what it needs with the kind
    of hop from there (see `hops`).
    """

    stretches: FloatArray
    passes: tuple[tuple[int, int, int, tuple[tuple[int, int], ...]], ...]
    last: IntArray  # row of each device
    chunks_per_device: int


def paths(bare: Skeleton, run_of_device: tuple[int, ...], stage_pool: tuple[int, ...] = ()) -> Paths:
    run, num_runs = np.array(run_of_device)[bare.device], max(run_of_device) + 1
    in_run = np.eye(num_runs)[run]

    def by_run(counts: IntArray, is_middle: BoolArray) -> FloatArray:
        kinds = (counts[:, :, None] * in_run[:, None, :]).reshape(len(counts), -1)
        return np.concatenate([kinds, is_middle[:, None] * in_run], axis=1)

    both = [by_run(bare.counts, bare.is_middle), by_run(bare.own, np.zeros_like(bare.is_middle))]
    place = {(0.0,) * both[0].shape[1]: NOTHING}
    between, of_row = ([place.setdefault(tuple(row), len(place) - 1) for row in rows.tolist()] for rows in both)
    hops = hop_kinds(bare.device[bare.needs], bare.device[:, None], stage_pool)
    needs = [
        tuple((need, hop) for need, hop in zip(row, lags, strict=True) if need != NOTHING)
        for row, lags in zip(bare.needs.tolist(), hops.tolist(), strict=True)
    ]
    last = np.zeros(len(run_of_device), dtype=np.int64)
    last[bare.device] = np.arange(len(bare.device))
    return Paths(
        stretches=np.array(list(place)[1:]),
        passes=tuple(zip(bare.before.tolist(), between, of_row, needs, strict=True)),
        last=last,
        chunks_per_device=bare.chunks_per_device,
    )


def longest_s(paths: Paths, took_s: FloatArray, more_s: FloatArray, transfer_s: FloatArray) -> FloatArray:
    """The longest path through a pipeline, of many plans at once.

    `took_s` is by kind, run and plan, one microbatch through all the device's chunks; `more_s`, by run and
    plan, what microbatches that the skeleton leaves out take there; `transfer_s` is by kind of hop and plan.
    """
    parts_s = np.concatenate([(took_s / paths.chunks_per_device).reshape(-1, took_s.shape[-1]), more_s])
    used = np.any(paths.stretches, axis=0)
    stretches, parts_s = paths.stretches[:, used], parts_s[used]
    if parts_s.shape[1] == 1:
        alone_s = _longest_alone_s(paths, (stretches @ parts_s)[:, 0].tolist(), transfer_s[:, 0].tolist())
        return np.array([alone_s])
    found_s = np.empty(parts_s.shape[1])
    for start in range(0, len(found_s), PLAN_BATCH):
        batch = slice(start, start + PLAN_BATCH)
        found_s[batch] = _longest_s(paths, stretches @ parts_s[:, batch], transfer_s[:, batch])
    return found_s


def _longest_alone_s(paths: Paths, stretches_s: list[float], lags_s: list[float]) -> float:
    """As `_longest_s`, of one plan: numbers, as an array of one takes ten times as long to add to."""
    ends_s: list[float] = []
    for before, between, of_row, needs in paths.passes:
        begun_s = ends_s[before] if before != NOTHING else 0.0
        if between != NOTHING:
            begun_s += stretches_s[between]
        for need, hop in needs:
            ready_s = ends_s[need] if hop == NO_HOP else ends_s[need] + lags_s[hop]
            begun_s = max(begun_s, ready_s)
        ends_s.append(begun_s + stretches_s[of_row])
    last: list[int] = paths.last.tolist()
    return max(ends_s[row] for row in last)


def _longest_s(paths: Paths, stretches_s: FloatArray, transfer_s: FloatArray) -> FloatArray:
    ends_s = np.zeros((len(paths.passes), transfer_s.shape[1]))
    end, stretch, lag_s = list(ends_s), list(stretches_s), list(transfer_s)
    arrives_s = np.empty(transfer_s.shape[1])
    is_free = not transfer_s.any()
    for row_end_s, (before, between, of_row, needs) in zip(end, paths.passes, strict=True):
        begun = end[before] if before != NOTHING else row_end_s  # rows not reached yet are zero
        if between != NOTHING:
            begun = np.add(begun, stretch[between], out=row_end_s)
        for need, hop in needs:
            ready = end[need] if is_free or hop == NO_HOP else np.add(end[need], lag_s[hop], out=arrives_s)
            begun = np.maximum(begun, ready, out=row_end_s)
        np.add(begun, stretch[of_row], out=row_end_s)
    slowest_s: FloatArray = ends_s[paths.last].max(axis=0)
    return slowest_s
