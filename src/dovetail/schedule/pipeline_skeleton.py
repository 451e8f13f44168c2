"""The length of a step from the first and last pass of every kind: a pipeline's longest paths in closed form.

A longest path through a step follows one microbatch between devices, stays on a device while that is the one all wait
for, and follows another microbatch to the end. So it is enough to look at the first and the last pass of each kind
of each chunk, joined by what the device does between them and by what they need. All that lies on such a path lies on
one of the schedule, so the result is never too long; it is exact for equal stages and free transfers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.schedule.pass_order import NOTHING, Kind, PassOrder, steps_of
from dovetail.schedule.pipeline_events import ChunkTimes, played
from dovetail.workload.graph import BoolArray, FloatArray, IntArray


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
    is_far: BoolArray
    counts: IntArray
    own: IntArray
    is_middle: BoolArray
    chunks_per_device: int


def skeleton(order: PassOrder) -> Skeleton:
    """The first and last passes of `order`, in the order they end if all take equally long."""
    steps = steps_of(order)
    num_chunks = len(order.chunk_devices)
    ones = np.ones(num_chunks)
    timeline = played(order, ChunkTimes(forward_s=ones, input_s=ones, weight_s=ones, transfer_s=0.0))
    rows: list[tuple[float, int, int]] = []  # when it ends, device, step
    for device, (passes, step) in enumerate(zip(order.devices, steps, strict=True)):
        kept = np.unique(step.of_rows(len(passes))[_first_and_last(passes)])
        rows += [(float(timeline.ends_s[device][step.first_row[s]]), device, int(s)) for s in kept]
    rows.sort()
    place = {(device, step): index for index, (_, device, step) in enumerate(rows)}
    giver = {int(give): place[d, s] for d, s in place for give in steps[d].gives[s] if give != NOTHING}
    last_seen = [(NOTHING, -1)] * len(steps)
    before, counts, is_middle = [], [], []
    for index, (_, device, here) in enumerate(rows):
        row, seen = last_seen[device]
        before.append(row)
        counts.append(steps[device].counts[seen + 1 : here].sum(axis=0))
        is_middle.append(seen < len(steps[device].counts) // 2 <= here)
        last_seen[device] = (index, here)
    return Skeleton(
        device=np.array([device for _, device, _ in rows]),
        before=np.array(before),
        needs=np.array([[giver.get(int(need), NOTHING) for need in steps[d].needs[s]] for _, d, s in rows]),
        is_far=np.array([steps[d].is_far[s] for _, d, s in rows]),
        counts=np.array(counts),
        own=np.array([steps[d].counts[s] for _, d, s in rows]),
        is_middle=np.array(is_middle),
        chunks_per_device=order.chunks_per_device,
    )


def _first_and_last(passes: IntArray) -> IntArray:
    """Rows of the first and the last pass of each kind (whole and half backward passes alike) and chunk."""
    way = np.where(passes[:, 0] == Kind.INPUT, Kind.BACKWARD, passes[:, 0])
    kinds = way * (passes[:, 1].max() + 1) + passes[:, 1]
    firsts = np.unique(kinds, return_index=True)[1]
    lasts = len(passes) - 1 - np.unique(kinds[::-1], return_index=True)[1]
    return np.concatenate([firsts, lasts])


def skeleton_s(bones: Skeleton, took_s: FloatArray, more_s: FloatArray, transfer_s: FloatArray) -> FloatArray:
    """The longest path through `bones`.

    `took_s` is by kind, device and plan, one microbatch through all the device's chunks; `more_s`, by device and
    plan, what microbatches that `bones` leaves out take there.
    """
    chunk_s = took_s / bones.chunks_per_device
    by_row = chunk_s[:, bones.device]
    runs_s = np.einsum("nk,kn...->n...", bones.counts, by_row)
    runs_s[bones.is_middle] += more_s[bones.device[bones.is_middle]]
    owns_s = np.einsum("nk,kn...->n...", bones.own, by_row)
    ends_s = np.zeros((len(bones.device) + 1, *runs_s.shape[1:]))  # the last row is what needs nothing waits for
    lags = bones.is_far.tolist()
    for row, (before, needs) in enumerate(zip(bones.before.tolist(), bones.needs.tolist(), strict=True)):
        start_s = ends_s[before] + runs_s[row]
        for need, is_far in zip(needs, lags[row], strict=True):
            if need != NOTHING:
                start_s = np.maximum(start_s, ends_s[need] + transfer_s if is_far else ends_s[need])
        ends_s[row] = start_s + owns_s[row]
    longest_s: FloatArray = ends_s.max(axis=0)
    return longest_s
