"""The order of passes of every device of a pipeline, as data, and what each pass must wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from dovetail.workload.graph import BoolArray, IntArray

NOTHING = -1  # the number of the pass that one needs which needs none


class Kind(IntEnum):
    """What a pass does: BACKWARD gives both gradients, INPUT and WEIGHT are its halves where it is split."""

    FORWARD = 0
    BACKWARD = 1
    INPUT = 2
    WEIGHT = 3


Row: TypeAlias = tuple[Kind, int, int, bool]  # kind, chunk, microbatch, whether it runs as one with the next row


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOrder:
    """What each device runs, in order: one row of `devices` a pass, columns as in `Row`.

    Chunks are numbered along the way a microbatch takes; where the pipeline runs several ways, each of `route_length`
    chunks, the second way's numbers follow the first's. Microbatches are numbered within their way. A chunk is on
    the device whose rows name it.
    """

    devices: tuple[IntArray, ...]
    route_length: int

    @property
    def chunk_devices(self) -> IntArray:
        """The device of every chunk."""
        homes = np.zeros(1 + max(int(rows[:, 1].max()) for rows in self.devices), dtype=np.int64)
        for device, rows in enumerate(self.devices):
            homes[rows[:, 1]] = device
        return homes

    @property
    def chunks_per_device(self) -> int:
        return len(self.chunk_devices) // len(self.devices)

    @property
    def num_microbatches(self) -> int:
        """Of one way."""
        return 1 + max(int(rows[:, 2].max()) for rows in self.devices)


def pass_order(devices: Iterable[Iterable[Row] | IntArray], route_length: int) -> PassOrder:
    """Of what each device runs, row by row or as one array of rows."""
    rows = (device if isinstance(device, np.ndarray) else np.array(list(device)) for device in devices)
    return PassOrder(devices=tuple(r.astype(np.int64).reshape(-1, 4) for r in rows), route_length=route_length)


def forward(chunk: int, microbatch: int, *, is_joined: bool = False) -> Row:
    return Kind.FORWARD, chunk, microbatch, is_joined


def backward(chunk: int, microbatch: int) -> Row:
    return Kind.BACKWARD, chunk, microbatch, False


def input_gradient(chunk: int, microbatch: int) -> Row:
    return Kind.INPUT, chunk, microbatch, False


def weight_gradient(chunk: int, microbatch: int) -> Row:
    return Kind.WEIGHT, chunk, microbatch, False


@dataclass(frozen=True, slots=True)
class Steps:
    """One device's passes as it runs them, those joined as one: two columns, the second empty for a pass alone."""

    needs: IntArray  # number of the pass that must be done before, or NOTHING
    gives: IntArray  # its own number
    is_far: BoolArray  # whether the needed pass is on another device
    counts: IntArray  # passes of each kind in the step
    first_row: IntArray  # of the device's passes

    def of_rows(self, num_rows: int) -> IntArray:
        """The step that each of the device's passes is in."""
        return np.searchsorted(self.first_row, np.arange(num_rows), side="right") - 1


def steps_of(order: PassOrder) -> tuple[Steps, ...]:
    """What every step waits for and brings about.

    A forward pass needs the chunk before, a backward pass the chunk after; the last chunk's backward pass needs its
    forward pass, and a weight gradient its input gradient.
    """
    sizes = [len(rows) for rows in order.devices]
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    all_steps = _steps(np.concatenate(order.devices), order)
    ends = np.searchsorted(all_steps.first_row, starts[1:])
    columns = [np.split(getattr(all_steps, field.name), ends) for field in fields(Steps)]
    *others, first_rows = columns
    device_rows = [rows - start for rows, start in zip(first_rows, starts, strict=True)]
    return tuple(Steps(*device) for device in zip(*others, device_rows, strict=True))


def _steps(rows: IntArray, order: PassOrder) -> Steps:
    """The steps of all devices, whose passes follow each other."""
    need, give, is_far = _needs(rows, order.chunk_devices, order)
    is_joined = rows[:, 3] == 1
    first_row = np.flatnonzero(~np.concatenate(([False], is_joined[:-1])))
    is_pair = is_joined[first_row]
    second = np.minimum(first_row + 1, len(rows) - 1)
    kinds = np.eye(len(Kind), dtype=np.int64)[rows[:, 0]]
    return Steps(
        needs=np.stack([need[first_row], np.where(is_pair, need[second], NOTHING)], axis=1),
        gives=np.stack([give[first_row], np.where(is_pair, give[second], NOTHING)], axis=1),
        is_far=np.stack([is_far[first_row], is_pair & is_far[second]], axis=1),
        counts=kinds[first_row] + np.where(is_pair[:, None], kinds[second], 0),
        first_row=first_row,
    )


def _needs(rows: IntArray, chunk_devices: IntArray, order: PassOrder) -> tuple[IntArray, IntArray, BoolArray]:
    """For each pass: the number of the one it needs, its own, and whether the needed one is on another device."""
    kind, chunk, microbatch, _ = rows.T
    place = chunk % order.route_length
    is_first, is_last = place == 0, place == order.route_length - 1
    num_chunks, num_microbatches = len(chunk_devices), order.num_microbatches

    def number(direction: IntArray | int, of_chunk: IntArray) -> IntArray:
        return np.asarray((direction * num_chunks + of_chunk) * num_microbatches + microbatch, dtype=np.int64)

    is_forward, is_weight = kind == Kind.FORWARD, kind == Kind.WEIGHT
    number_of_pass = number(np.where(is_forward, 0, np.where(is_weight, 2, 1)), chunk)
    before = np.where(is_first, NOTHING, number(0, chunk - 1))
    after = np.where(is_last, number(0, chunk), number(1, chunk + 1))
    need = np.where(is_forward, before, np.where(is_weight, number(1, chunk), after))
    stays = is_weight | (is_forward & is_first) | (~is_forward & is_last)
    other = np.where(stays, chunk, np.where(is_forward, chunk - 1, chunk + 1))
    return need, number_of_pass, chunk_devices[other] != chunk_devices[chunk]
