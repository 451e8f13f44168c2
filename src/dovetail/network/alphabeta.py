"""Latency and bandwidth of the two moves every collective is made of, in one network dimension.

Sharing: a group that fills its dimension has the dimension's links to itself. Ranks that are a contiguous part of a
ring or mesh form a line; interleaved groups (stride above 1) share its links, and go round if they fill the ring.
"""

from __future__ import annotations

import math

import numpy as np

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
        # one way round: whoever is not a neighbour is passed through, so every link carries all groups
        return bandwidth * span.num_ranks / dimension.num_devices
    if dimension.kind == "bidirectional-ring" and span.goes_round:
        # opposite devices take whole messages one way or the other, so that an odd one out fills a link alone
        is_opposite = span.num_ranks == 2 and dimension.num_devices > 2
        return bandwidth / (2 * math.ceil(span.stride / 2) if is_opposite else span.stride)
    if dimension.kind in ("bidirectional-ring", "mesh"):
        # a line: its ends have one neighbour, so one port of two sets the pace, shared by the strided groups
        num_ports = 1 if dimension.num_devices == 2 else 2
        return bandwidth / num_ports / span.stride
    raise NotModelled(f"collectives over a {dimension.kind} are not modelled")


def num_steps(span: Span) -> int:
    """Messages one after the other in a gather or reduce-scatter: halving on switches, neighbours on rings."""
    if span.dimension.kind in _SWITCHED:
        return math.ceil(math.log2(span.num_ranks))
    return 1 if span.dimension.kind == "fully-connected" else span.num_ranks - 1


def gather_s(payload_bytes: Amount, span: Span, link_frac: float) -> Amount:
    """Time until every rank holds all of `payload_bytes`, of which each had a part; a reduce-scatter is its mirror.

    Every rank must receive (n-1)/n of the payload, which ring and halving algorithms reach.
    Source: Thakur, Rabenseifner & Gropp, IJHPCA 2005.
    """
    n = span.num_ranks
    if n == 1:
        return 0.0
    moved_bytes = payload_bytes * (n - 1) / n
    return num_steps(span) * span.dimension.link.latency_s + moved_bytes / send_bytes_per_s(span, link_frac)


def all_to_all_s(payload_bytes: Amount, span: Span, link_frac: float) -> Amount:
    """Time for every rank to send an equal part of its `payload_bytes` to each other rank.

    On switches and where all are joined each part takes one hop. On rings and lines parts travel several links: n/4 on
    average both ways round, (n-1)/2 one way, n/3 on a line, whose middle carries most: half of all parts cross it.
    """
    n, latency_s = span.num_ranks, span.dimension.link.latency_s
    if n == 1:
        return 0.0
    rate = send_bytes_per_s(span, link_frac)
    kind = span.dimension.kind
    if kind in _SWITCHED or kind == "fully-connected":
        return latency_s + payload_bytes * (n - 1) / n / rate
    if kind == "ring":
        return (n - 1) * latency_s + payload_bytes * (n - 1) / 2 / rate
    if kind == "bidirectional-ring" and span.goes_round:
        # the sum of the shorter distances, over two ports; the farthest are half the ring away
        return n // 2 * latency_s + payload_bytes * (n // 2) * ((n + 1) // 2) / n / rate
    # The link from rank i on carries i(n-i) parts each way over the one port that `rate` counts there, and the last of
    # them has n-i links to go: the middle link decides where bytes do, the first where latency does.
    part_s = payload_bytes / n / rate
    return np.max([i * (n - i) * part_s + (n - i) * latency_s for i in range(1, n)], axis=0)
