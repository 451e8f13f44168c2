"""Offload of activations played out layer by layer on one device: its compute, and a copy engine each way.

The twin of the closed form in `step.offload`, in which a pass takes as long as its compute or its copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dovetail.parallel.memory import NUM_OFFLOADED_IN_TRANSIT
from dovetail.step.pass_order import Kind

Pass = tuple[Kind, int]  # forward or backward, and of which microbatch


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """What each of a stage's alike layers takes: compute forward and backward, and its copy one way."""

    num_layers: int
    forward_s: float
    backward_s: float
    copy_s: float


def passes_end_s(order: Sequence[Pass], times: LayerTimes) -> float:
    """When the last of the passes, one after the other, has computed; copies that nothing waits for may go on.

    A layer's activations go down when it has computed, and a later layer starts only when no more than those in transit
    are left on the device. They come up, in the order of need, as buffers of earlier layers are done with. Where a
    microbatch turns back at once, its last layer's never leave.
    """
    sent: dict[tuple[int, int], float] = {}  # when a layer's activations are on the host, by microbatch and layer
    clock_s = up_s = 0.0
    downs_s: list[float] = []  # ends of copies, in order
    backwards_s: list[float] = []  # ends of layers that used what came up, in order
    turning = {first[1] for first, then in pairwise(order) if first[1] == then[1]}
    in_transit = NUM_OFFLOADED_IN_TRANSIT
    for kind, microbatch in order:
        for step in range(times.num_layers):
            if kind is Kind.FORWARD:
                clock_s = max(clock_s, downs_s[-in_transit] if len(downs_s) >= in_transit else 0.0) + times.forward_s
                if not (microbatch in turning and step == times.num_layers - 1):
                    downs_s.append(max(clock_s, downs_s[-1] if downs_s else 0.0) + times.copy_s)
                    sent[microbatch, step] = downs_s[-1]
                continue
            ready_s = clock_s
            if (microbatch, layer := times.num_layers - 1 - step) in sent:
                free_s = backwards_s[-in_transit] if len(backwards_s) >= in_transit else 0.0
                ready_s = up_s = max(up_s, free_s, sent[microbatch, layer]) + times.copy_s
            clock_s = max(clock_s, ready_s) + times.backward_s
            backwards_s.append(clock_s)
    return clock_s
