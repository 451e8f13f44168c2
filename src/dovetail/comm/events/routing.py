"""The links messages take, for many messages at once: dimension by dimension, innermost first."""

from __future__ import annotations

import numpy as np

from dovetail.comm.events.network_graph import Block, LinkGraph, coordinate, copy_of
from dovetail.comm.events.unit_graphs import Ints, next_links
from dovetail.errors import InvalidInput

_SWITCHED = ("switch", "fat-tree")


def _ring_hops(n: int, kind: str, start: Ints, end: Ints) -> Ints:
    """Unit links of a ring or line: forwards are 0..n-1 by their start, backwards n..2n-1.

    To the opposite device of a ring both ways are as long: every other device takes the one back.
    """
    forward = (end - start) % n
    is_back = np.zeros(len(start), bool)
    if n > 2 and kind == "bidirectional-ring":
        is_back = (forward * 2 > n) | ((forward * 2 == n) & (start % 2 == 1))
    elif n > 2 and kind == "mesh":
        is_back = end < start
    length = np.where(is_back, (start - end) % n, forward)
    step = np.arange(int(length.max(initial=0)))[:, None]
    links = np.where(is_back, n + (start - step) % n, (start + step) % n)
    return np.where(step < length, links, -1)


def _block_hops(graph: LinkGraph, block: Block, start: Ints, end: Ints, copies: Ints) -> Ints:
    n = block.num_devices
    if block.kind in _SWITCHED:
        unit = np.where(start != end, np.stack([start, n + end]), -1)
    elif block.kind == "fully-connected":
        unit = np.where(start != end, start * n + end, -1)[None, :]
    elif block.kind == "graph":
        unit = _table_hops(graph, block, start, end)
    else:
        unit = _ring_hops(n, block.kind, start, end)
    return np.where(unit >= 0, block.first_link + copies * block.num_links + unit, -1)


def _table_hops(graph: LinkGraph, block: Block, start: Ints, end: Ints) -> Ints:
    assert block.unit is not None, block
    source = np.array([w.source for w in block.unit.wires])
    target = np.array([w.target for w in block.unit.wires])
    num_vertices = block.num_devices + block.num_switches
    for goal in np.unique(end):
        key = (block.first_link, int(goal))
        if key not in graph.onward:
            graph.onward[key] = next_links(num_vertices, source, target, np.ones(len(source), bool), int(goal))
    table = np.stack([graph.onward[block.first_link, int(goal)] for goal in np.unique(end)])
    row = np.searchsorted(np.unique(end), end)
    hops: list[Ints] = []
    at = start.copy()
    while (moving := at != end).any():
        link = np.where(moving, table[row, at], -1)
        if (stuck := moving & (link < 0)).any():
            index = int(np.flatnonzero(stuck)[0])
            raise InvalidInput(f"{block.name}: no way leads from device {start[index]} to {end[index]}")
        hops.append(link)
        at = np.where(moving, target[link], at)
    return np.stack(hops) if hops else np.empty((0, len(start)), np.int64)


def _detour(graph: LinkGraph, start: int, goal: int) -> list[int]:
    """The shortest way round broken links."""
    key = (-1, goal)
    if key not in graph.onward:
        graph.onward[key] = next_links(graph.num_vertices, graph.source, graph.target, graph.is_alive, goal)
    hops, at = [], start
    while at != goal:
        link = int(graph.onward[key][at])
        if link < 0:
            raise InvalidInput(f"no way leads from device {start} to device {goal}: every route has a broken link")
        hops.append(link)
        at = int(graph.target[link])
    return hops


def routes(graph: LinkGraph, source: Ints, target: Ints) -> Ints:
    """Links each message takes, one column a message, -1 where its way is already over."""
    rows: list[Ints] = []
    at = source
    for block in graph.blocks:
        start, end = coordinate(block, at), coordinate(block, target)
        if (start != end).any():
            rows.append(_block_hops(graph, block, start, end, copy_of(block, at)))
        at = at + (end - start) * block.stride
    links = np.concatenate(rows) if rows else np.empty((0, len(source)), np.int64)
    if not graph.is_broken:
        return links
    broken = ((links >= 0) & ~graph.is_alive[links]).any(axis=0)
    ways = {int(i): _detour(graph, int(source[i]), int(target[i])) for i in np.flatnonzero(broken)}
    num_rows = max([len(links), *(len(way) for way in ways.values())])
    padded = np.full((num_rows, len(source)), -1, np.int64)
    padded[: len(links)] = links
    for column, way in ways.items():
        padded[:, column] = -1
        padded[: len(way), column] = way
    return padded[(padded >= 0).any(axis=1)]


def switch_links(block: Block, devices: Ints, is_up: bool) -> Ints:
    """The link of each device to (or from) the switch of a dimension, as a one-hop route."""
    first = block.first_link + copy_of(block, devices) * block.num_links
    return (first + coordinate(block, devices) + (0 if is_up else block.num_devices))[None, :]
