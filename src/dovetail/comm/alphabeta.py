"""Latency and bandwidth of the two moves every collective is made of, in one network dimension.

Sharing: a group that fills its dimension has the dimension's links to itself. Ranks that are a contiguous part of a
ring or mesh form a line; interleaved groups (stride above 1) share its links, and go round if they fill the ring. A
message between two ranks of such a group passes every link between them, and waits at each for what is before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.comm.messages import messages_of
from dovetail.errors import NotModelled
from dovetail.hardware.topology import Span
from dovetail.units import Amount

_SWITCHED = ("switch", "fat-tree")


def send_bytes_per_s(span: Span, link_frac: float) -> float:
    """What one rank can send to the others of its group, in one direction, all its ports together."""
    dimension = span.dimension
    bandwidth = dimension.link.bandwidth_bytes_per_s * link_frac
    if dimension.kind in _SWITCHED:
        return bandwidth / dimension.oversubscription
    if dimension.kind == "fully-connected":
        # one link to each other device; only those inside the group help
        return bandwidth * (span.num_ranks - 1) / max(1, dimension.num_devices - 1)
    if dimension.kind == "ring":
        # one way round: a device that is not a neighbour is passed through, so every link carries all groups
        return bandwidth * span.num_ranks / dimension.num_devices
    if dimension.kind == "bidirectional-ring" and span.goes_round:
        # opposite devices take whole messages one way or the other, so that an odd one out fills a link alone
        return bandwidth / (2 * math.ceil(span.stride / 2) if are_opposite(span) else span.stride)
    if dimension.kind in ("bidirectional-ring", "mesh"):
        # a line: its ends have one neighbour, so one port of two sets the pace, shared by the strided groups
        num_ports = 1 if dimension.num_devices == 2 else 2
        return bandwidth / num_ports / span.stride
    raise NotModelled(f"collectives over a {dimension.kind} are not modelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a message gets from one rank of a group to the next while all groups of a dimension send theirs.

    It passes `num_hops` links, each of which `num_sharing` groups use; two that use the same link set out `hops_apart`
    links from each other.
    """

    num_hops: int
    num_sharing: float
    hops_apart: int = 1

    def relayed_s(self, link_s: Amount, latency_s: float) -> Amount:
        """What a message that takes `link_s` over a link alone takes beyond one latency and `link_s` for each sharer.

        At every link it comes after the latency of the links before, or when the message ahead of it has passed,
        whichever is later: latency and bandwidth overlap. Found by events, which it equals.
        """
        num_others = self.num_sharing - 1
        free_hops = self.num_hops - 1 - self.hops_apart * num_others
        return num_others * np.maximum(self.hops_apart * latency_s - link_s, 0.0) + free_hops * latency_s


def route_of(span: Span) -> Route:
    """One hop by a switch or where all are joined; on rings and lines every link between two ranks.

    One way round a ring, the last rank of a part of it reaches the first by all the rest, and the others wait for it.
    """
    dimension, stride = span.dimension, span.stride
    if dimension.kind == "ring":
        num_hops = dimension.num_devices - (span.num_ranks - 1) * stride
        return Route(num_hops=num_hops, num_sharing=dimension.num_devices / span.num_ranks)
    if are_opposite(span):
        return Route(num_hops=stride, num_sharing=math.ceil(stride / 2), hops_apart=2)
    return neighbour_route(span)


def neighbour_route(span: Span) -> Route:
    """As `route_of`, from a rank to the one `stride` further on."""
    num_links = span.stride if span.dimension.kind in ("ring", "bidirectional-ring", "mesh") else 1
    return Route(num_hops=num_links, num_sharing=num_links)


def are_opposite(span: Span) -> bool:
    """Whether a group is two devices half a two-way ring apart: every second such pair takes the other way round."""
    dimension = span.dimension
    is_pair = span.num_ranks == 2 and dimension.num_devices > 2
    return dimension.kind == "bidirectional-ring" and is_pair and span.goes_round


def gather_s(payload_bytes: Amount, span: Span, link_frac: float, collective: str = "all-gather") -> Amount:
    """Time until every rank has all of `payload_bytes`, of which each had a part; a reduce-scatter is the mirror.

    Every rank must receive (n-1)/n of the payload, which ring and halving algorithms reach; where switches add and
    multicast, its port carries the whole payload once, an all-reduce's too.
    Source: Thakur, Rabenseifner & Gropp, IJHPCA 2005.
    """
    if span.num_ranks == 1:
        return 0.0
    messages = messages_of(collective, span)
    share, whole = messages.moved
    moving_s = payload_bytes * share / whole / send_bytes_per_s(span, link_frac)
    steps, latency_s, route = messages.num_steps, span.dimension.link.latency_s, route_of(span)
    time_s = steps * latency_s + moving_s
    if route.num_hops == 1:
        return time_s
    return time_s + steps * route.relayed_s(moving_s / steps / route.num_sharing, latency_s)


def all_to_all_s(payload_bytes: Amount, span: Span, link_frac: float) -> Amount:
    """Time for every rank to send an equal part of its `payload_bytes`, its send buffer, to each other rank.

    On switches and where all are joined each part takes one hop. On rings and lines parts travel several links: n/4 on
    average both ways round, (n-1)/2 one way, n/3 on a line, whose middle carries most: half of all parts cross it.
    """
    n, latency_s = span.num_ranks, span.dimension.link.latency_s
    if n == 1:
        return 0.0
    rate, kind = send_bytes_per_s(span, link_frac), span.dimension.kind
    messages = messages_of("all-to-all", span)
    share, whole = messages.moved
    sent_s = messages.num_steps * latency_s + payload_bytes * share / whole / rate
    if kind in _SWITCHED or kind == "fully-connected":
        return sent_s
    route, part_s = route_of(span), payload_bytes / n / rate

    def relayed_s(num_parts: range) -> Amount:
        """Beyond one link a step, of steps that hand on so many parts each."""
        if route.num_hops == 1:
            return 0.0
        return sum(route.relayed_s(count * part_s / route.num_sharing, latency_s) for count in num_parts)

    if kind == "ring":
        return sent_s + relayed_s(range(1, n))
    if kind == "bidirectional-ring" and span.goes_round:
        # every step hands on one distance less: a part by either port, and of one half way round half by each
        return sent_s + relayed_s(range(1 + n % 2, n, 2))
    # The link from rank i on carries i(n-i) parts each way over the one port that `rate` counts there, and the last of
    # them has n-i ranks to go: the middle link decides where bytes do, the first where latency does. Of interleaved
    # groups, latency and bandwidth overlap on the way to one rank at least: up to 12 % above what events find.
    far_s = route.num_hops * latency_s
    time_s = np.max([i * (n - i) * part_s + (n - i) * far_s for i in range(1, n)], axis=0)
    return time_s if route.num_hops == 1 else time_s - far_s + latency_s + relayed_s(range(1, 2))
