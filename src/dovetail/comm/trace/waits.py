"""When the kernels of a device stood still, and what for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dovetail.comm.events.recording import Record, StreamSlice

KERNELS, CPU, WAITS = "compute", "cpu", "waits"
After = Callable[[int, str], Sequence[str]]  # device and task -> what it waits for


def with_waits(record: Record, after: After) -> Record:
    """`record` with one more stream a device: from the end of a kernel to the next, or to the device's end.

    Each is named for what the next kernel waited for last.
    """
    by_device: dict[int, list[StreamSlice]] = {}
    for one in record.streams:
        by_device.setdefault(one.device, []).append(one)
    waits = [wait for own in by_device.values() for wait in _waits(own, after)]
    streams = sorted((*record.streams, *waits), key=lambda one: (one.device, one.begin_s, one.end_s))
    return replace(record, streams=tuple(streams))


def _waits(own: Sequence[StreamSlice], after: After) -> list[StreamSlice]:
    ends_s = {one.task: one.end_s for one in own}
    kernels = [one for one in own if one.stream == KERNELS]
    last = max(own, key=lambda one: one.end_s)
    found, free_s = [], 0.0
    for kernel in kernels:
        if kernel.begin_s > free_s:
            waited = [name for name in after(kernel.device, kernel.task) if name in ends_s]
            name = max(waited, key=lambda name: ends_s[name], default="its turn")
            found.append(_wait(kernel.device, name, free_s, kernel.begin_s))
        free_s = max(free_s, kernel.end_s)
    if kernels and last.end_s > free_s:
        found.append(_wait(last.device, last.task, free_s, last.end_s))
    return found


def _wait(device: int, name: str, begin_s: float, end_s: float) -> StreamSlice:
    return StreamSlice(device=device, stream=WAITS, task=name, ready_s=begin_s, begin_s=begin_s, end_s=end_s)
