"""What must cross the middle of a network: the bytes of all-to-alls between two halves, over the links that join them.

Every way of parting the vertices bounds the rate between the parts by the links that lead across, so any of them is a
bound; those through the middle of a dimension are the tight ones on rings, meshes, tori, fat trees and dragonflies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.comm.events.network_graph import Block, LinkGraph
from dovetail.comm.events.unit_graphs import Ints

MAX_CUTS = 64  # style: a bound; places along a dimension that are tried as its middle
NUM_ROUNDS = 4  # of switches joining the side they have more links to: leaves, spines, and back

Sides = NDArray[np.bool_]


def bisection_bound_s(payload_bytes: float, groups: Ints, graph: LinkGraph, dimensions: Sequence[str] = ()) -> float:
    """The least time that all-to-alls of `payload_bytes` in all of `groups` (rows of devices) at once can take.

    Every device sends an equal part to each other of its group. Only links in `dimensions` count (all, when none is
    named, and all where links are broken, for ways round them may lead anywhere).
    """
    num_ranks = groups.shape[1]
    link_bytes_per_s = np.where(graph.is_alive, graph.bandwidth_bytes_per_s, 0.0)
    named = [block for block in graph.blocks if not dimensions or graph.is_broken or block.name in dimensions]
    for block in graph.blocks:
        if block not in named:
            copies = graph.num_devices // block.num_devices
            link_bytes_per_s[block.first_link : block.first_link + copies * block.num_links] = 0.0
    bound_s = 0.0
    for block in named:
        for devices in _halves(block, graph.num_devices):
            is_here = devices[groups]
            crossing = float((is_here.sum(axis=1) * (~is_here).sum(axis=1)).sum()) * payload_bytes / num_ranks
            if crossing:
                bound_s = max(bound_s, crossing / _cut_bytes_per_s(devices, link_bytes_per_s, graph))
    return bound_s


def _halves(block: Block, num_devices: int) -> Iterator[Sides]:
    """Devices in one half of a dimension, from each of its places on; the other half is the rest."""
    size = block.num_devices
    coordinate = np.arange(num_devices) // block.stride % size
    for start in range(0, size, -(-size // MAX_CUTS)):
        yield (coordinate - start) % size < size // 2


def _cut_bytes_per_s(devices: Sides, link_bytes_per_s: NDArray[np.float64], graph: LinkGraph) -> float:
    """The narrower way across a cut; switches lie where more of their bandwidth leads, or all on either side."""
    found = []
    for default in (False, True):
        is_here = np.full(graph.num_vertices, default)
        is_here[: graph.num_devices] = devices
        for num_rounds in range(NUM_ROUNDS + 1):
            forth = link_bytes_per_s[is_here[graph.source] & ~is_here[graph.target]].sum()
            back = link_bytes_per_s[~is_here[graph.source] & is_here[graph.target]].sum()
            found += [float(forth), float(back)]
            if num_rounds < NUM_ROUNDS:
                is_here = _joined(is_here, link_bytes_per_s, graph)
    return max(min(found), np.finfo(np.float64).tiny)


def _joined(is_here: Sides, link_bytes_per_s: NDArray[np.float64], graph: LinkGraph) -> Sides:
    """Every switch on the side that more of its bandwidth leads to; undecided ones stay."""
    pull = np.zeros(graph.num_vertices)
    np.add.at(pull, graph.target, np.where(is_here[graph.source], link_bytes_per_s, -link_bytes_per_s))
    np.add.at(pull, graph.source, np.where(is_here[graph.target], link_bytes_per_s, -link_bytes_per_s))
    joined = np.where(pull > 0, True, np.where(pull < 0, False, is_here))
    joined[: graph.num_devices] = is_here[: graph.num_devices]
    return np.asarray(joined)
