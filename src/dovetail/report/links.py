"""What each link of a network carried and how busy it was, as plain data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from dovetail.comm.events.engine import Timeline
from dovetail.comm.events.network_graph import LinkGraph
from dovetail.comm.events.recording import link_owners
from dovetail.comm.events.unit_graphs import Ints

MAX_LINKS = 50_000


def num_links(graph: LinkGraph, devices: Collection[int] = ()) -> int:
    """Live links of the devices named, or of all."""
    return len(_links(graph, devices))


def link_records(
    graph: LinkGraph, timeline: Timeline, time_s: float, devices: Collection[int] = ()
) -> list[dict[str, Any]]:
    """Every live link of `devices` (all, when none is named); none where there are too many to list."""
    links = _links(graph, devices)
    if len(links) > MAX_LINKS:
        return []
    found = []
    for link, dimension in zip(links.tolist(), dimensions_of_links(graph, links), strict=True):
        busy_s, rate = float(timeline.link_busy_s[link]), float(graph.bandwidth_bytes_per_s[link])
        found.append(
            {
                "source": int(graph.source[link]),
                "target": int(graph.target[link]),
                "dimension": dimension,
                "bandwidth_bytes_per_s": rate,
                "latency_s": float(graph.latency_s[link]),
                "traffic_bytes": busy_s * rate,
                "busy_s": busy_s,
                "busy_frac": busy_s / time_s if time_s else 0.0,
            }
        )
    return found


def block_ranges(graph: LinkGraph) -> list[tuple[str, int, int]]:
    """Each dimension's name, its first link, and the one after its last."""
    counts = [block.num_links * (graph.num_devices // block.num_devices) for block in graph.blocks]
    pairs = zip(graph.blocks, counts, strict=True)
    return [(block.name, block.first_link, block.first_link + count) for block, count in pairs]


def dimensions_of_links(graph: LinkGraph, links: Ints) -> list[str]:
    """The name of the dimension of each of `links`."""
    ranges = block_ranges(graph)
    places = np.searchsorted([last for _, _, last in ranges], links, side="right")
    return [ranges[place][0] for place in places.tolist()]


def _links(graph: LinkGraph, devices: Collection[int]) -> Ints:
    is_wanted = graph.is_alive
    if devices:
        is_wanted = is_wanted & np.isin(link_owners(graph), list(devices))
    return np.flatnonzero(is_wanted)
