"""A pipeline schedule played out pass by pass: when each starts and ends, and what each device holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.step.hops import NO_HOP, hop_kinds
from dovetail.step.pass_order import NOTHING, Kind, PassOrder, Steps, steps_of
from dovetail.workload.graph import FloatArray, IntArray

_NOT_YET = -1.0  # no pass ends before zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTimes:
    """What the passes of each chunk take, by chunk, and what handing on to another device takes.

    That is one number, or where `stage_pool` gives every device a part of the cluster one a kind of hop.
    """

    forward_s: FloatArray
    input_s: FloatArray
    weight_s: FloatArray
    transfer_s: npt.ArrayLike
    stage_pool: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When every pass of `order` ran: rows of `starts_s` and `ends_s` are those of `order.devices`.

    Passes that run as one start and end together.
    """

    order: PassOrder
    starts_s: tuple[FloatArray, ...]
    ends_s: tuple[FloatArray, ...]
    busy_s: tuple[float, ...]  # time each device works

    @property
    def pipeline_s(self) -> float:
        """From the first start to the last end of any pass."""
        return max(float(ends[-1]) for ends in self.ends_s)

    @property
    def bubble_s(self) -> tuple[float, ...]:
        """How long each device idles between the step's start and end."""
        return tuple(self.pipeline_s - busy_s for busy_s in self.busy_s)

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """How long each device idles between its own first and last pass: the bubble where no device waits for the
        others before its update.
        """
        spans = zip(self.starts_s, self.ends_s, self.busy_s, strict=True)
        return tuple(float(end[-1] - start[0]) - busy_s for start, end, busy_s in spans)

    @property
    def held(self) -> tuple[PeakActivations, ...]:
        return held(self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakActivations:
    """Activations a device holds at its fullest, in microbatches through all its chunks."""

    in_flight: float
    waiting: float  # of them, those that only a weight-gradient pass still needs


def played(order: PassOrder, times: ChunkTimes) -> Timeline:
    """Every pass of `order` as soon as its device and what it needs are done: the longest path, exact.

    Transfers take no device's time and do not queue for links. An order that cannot run to its end is our mistake.
    """
    steps = steps_of(order)
    took_s = np.stack([times.forward_s, times.input_s + times.weight_s, times.input_s, times.weight_s])
    passes_s = [took_s[rows[:, 0], rows[:, 1]] for rows in order.devices]
    steps_s = [np.add.reduceat(took, step.first_row) for took, step in zip(passes_s, steps, strict=True)]
    ends = _run(steps, [took.tolist() for took in steps_s], _lags_s(steps, times))
    assert all(len(end) == len(step.needs) for end, step in zip(ends, steps, strict=True)), _stuck(order, steps, ends)
    step_of = [step.of_rows(len(rows)) for rows, step in zip(order.devices, steps, strict=True)]
    ends_s = tuple(np.array(end)[index] for end, index in zip(ends, step_of, strict=True))
    lasted_s = [took[index] for took, index in zip(steps_s, step_of, strict=True)]
    return Timeline(
        order=order,
        starts_s=tuple(end - lasted for end, lasted in zip(ends_s, lasted_s, strict=True)),
        ends_s=ends_s,
        busy_s=tuple(float(took.sum()) for took in steps_s),
    )


def _lags_s(steps: tuple[Steps, ...], times: ChunkTimes) -> list[FloatArray]:
    """What every step waits for each pass it needs to be handed over, device by device."""
    num_passes = 1 + max(int(step.gives.max()) for step in steps)
    giver = np.zeros(num_passes + 1, dtype=np.int64)
    for device, step in enumerate(steps):
        giver[step.gives] = device
    transfer_s = np.append(np.ravel(np.asarray(times.transfer_s, dtype=float)), 0.0)  # the last is that of no hop
    hops = [
        np.where(step.is_far, hop_kinds(giver[step.needs], np.array(device), times.stage_pool), NO_HOP)
        for device, step in enumerate(steps)
    ]
    return [transfer_s[hop] for hop in hops]


def _run(steps: tuple[Steps, ...], steps_s: list[list[float]], lags_s: list[FloatArray]) -> list[list[float]]:
    """End of every step that can run. A device runs on until it lacks something, and again when that is done."""
    num_passes = 1 + max(int(step.gives.max()) for step in steps)
    done_s = [_NOT_YET] * num_passes + [0.0]  # the last one is what a pass that needs nothing waits for
    waiting_device = [NOTHING] * (num_passes + 1)  # the device that waits for a pass
    ends: list[list[float]] = [[] for _ in steps]
    listed = [(s.needs.tolist(), s.gives.tolist(), lag.tolist()) for s, lag in zip(steps, lags_s, strict=True)]
    ready = list(range(len(steps)))
    while ready:
        device = ready.pop()
        needs, gives, waits_s = listed[device]
        mine = ends[device]
        clock_s = mine[-1] if mine else 0.0
        for index in range(len(mine), len(needs)):
            (need, other), (lag_s, other_lag_s) = needs[index], waits_s[index]
            lacking = need if done_s[need] == _NOT_YET else other
            if done_s[lacking] == _NOT_YET:
                waiting_device[lacking] = device
                break
            clock_s = max(clock_s, done_s[need] + lag_s, done_s[other] + other_lag_s) + steps_s[device][index]
            mine.append(clock_s)
            for give in gives[index]:
                if give != NOTHING:
                    done_s[give] = clock_s
                    if waiting_device[give] != NOTHING:
                        ready.append(waiting_device[give])
    return ends


def _stuck(order: PassOrder, steps: tuple[Steps, ...], ends: list[list[float]]) -> str:
    """The pass each unfinished device waits in front of."""
    waits = []
    for device, (rows, step, end) in enumerate(zip(order.devices, steps, ends, strict=True)):
        if len(end) < len(step.first_row):
            kind, chunk, microbatch, _ = (int(x) for x in rows[step.first_row[len(end)]])
            waits.append(f"device {device} at {Kind(kind).name} of chunk {chunk}, microbatch {microbatch}")
    return f"the order of passes deadlocks: {'; '.join(waits)}"


def held(order: PassOrder) -> tuple[PeakActivations, ...]:
    """The most each device holds at once; of moments as full, the one at which the least only waits.

    A forward pass holds from its start, until its backward or its weight-gradient pass ends.
    """
    peaks = []
    for rows in order.devices:
        kind = rows[:, 0]
        begun = np.cumsum(kind == Kind.FORWARD)
        left = _before(np.cumsum((kind == Kind.BACKWARD) | (kind == Kind.WEIGHT)))
        waiting = _before(np.cumsum(kind == Kind.INPUT) - np.cumsum(kind == Kind.WEIGHT))
        fullest = np.lexsort((-waiting, begun - left))[-1]
        most, least = float((begun - left)[fullest]), float(waiting[fullest])
        peaks.append(PeakActivations(in_flight=most / order.chunks_per_device, waiting=least / order.chunks_per_device))
    return tuple(peaks)


def _before(counts: IntArray) -> IntArray:
    return np.concatenate(([0], counts[:-1]))
