"""What the event loop asks of the ranks' clocks, whether it keeps all of them or one."""

from __future__ import annotations

from typing import Any, Protocol

from dovetail.comm.events.network_graph import Floats
from dovetail.comm.events.phases import Phase
from dovetail.comm.events.program import Compute, Send
from dovetail.comm.events.recording import Recorder
from dovetail.comm.events.schedules import Level

Clocks = Any  # an array over vertices, or the number that stands for it
TOLERANCE_S = 1e-12  # rounding of sums that mean the same moment; a millionth of any latency


def lane_order(chunk: int, phase: int, lane: int) -> int:
    """Who goes first of messages that come at once: by chunk (numbered over all tasks), phase, then lane."""
    return chunk << 16 | phase << 8 | lane


class Ranks(Protocol):
    """What the loop asks of the ranks' clocks: `AllRanks` and `OneRank`."""

    recorder: Recorder | None  # where a record of what was carried and run is wanted
    num_out_of_order: int
    num_messages: int

    @property
    def busy_s(self) -> Floats: ...
    def begin(self) -> Clocks: ...
    def copy(self, clocks: Clocks, /) -> Clocks: ...
    def later(self, a: Clocks, b: Clocks, /) -> Clocks: ...
    def first_s(self, clocks: Clocks, phase: Phase | None, level: Level | None = None, /) -> float: ...
    def last_s(self, clocks: Clocks, phase: Phase | None = None, /) -> float: ...
    def earliest_s(self, clocks: Clocks, devices: tuple[int, ...], /) -> float: ...
    def after_compute(self, clocks: Clocks, task: Compute, /) -> Clocks: ...
    def after_send(self, clocks: Clocks, task: Send, order: int, /) -> tuple[Clocks, Clocks]: ...
    def run_level(self, ready: Clocks, phase: Phase, level: Level, order: int, /) -> Clocks: ...
