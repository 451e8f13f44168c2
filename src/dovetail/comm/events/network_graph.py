"""Dimensions -> directed links, and the way a message takes over them.

A topology is a product: every dimension is one small graph, repeated for each place in the other dimensions. Links of
a dimension lie together, copy by copy, so that the link a message needs is arithmetic on coordinates, never a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dovetail.comm.events.unit_graphs import Ints, UnitGraph
from dovetail.errors import InvalidInput
from dovetail.hardware.topology import Dimension, Topology

Floats = NDArray[np.float64]
_SWITCHED = ("switch", "fat-tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The links of one dimension: `num_links` a copy, from `first_link` on; switches from `first_switch` on."""

    name: str
    kind: str
    num_devices: int
    stride: int
    first_link: int
    num_links: int
    first_switch: int
    num_switches: int
    unit: UnitGraph | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkGraph:
    """All devices, switches and directed links of a network, as arrays.

    `is_alive` is false for broken links, and for the numbers a line leaves unused at its ends.
    """

    num_devices: int
    num_vertices: int
    blocks: tuple[Block, ...]
    source: Ints
    target: Ints
    bandwidth_bytes_per_s: Floats
    latency_s: Floats
    is_alive: NDArray[np.bool_]
    is_uniform: bool = True
    is_broken: bool = False
    onward: dict[tuple[int, int], Ints] = field(default_factory=dict)  # next links already found, by (block, goal)

    def block(self, name: str) -> Block:
        for block in self.blocks:
            if block.name == name:
                return block
        raise InvalidInput(f"no dimension is named {name!r}; known: {', '.join(b.name for b in self.blocks)}")

    def links_between(self, source: int, target: int) -> Ints:
        found = np.flatnonzero((self.source == source) & (self.target == target) & self.is_alive)
        if not len(found):
            raise InvalidInput(f"no link joins {source} to {target}")
        return found

    def with_link_scaled(self, source: int, target: int, factor: float) -> LinkGraph:
        """The same network with the link `source` -> `target` at `factor` of its bandwidth; 0 breaks it."""
        links = self.links_between(source, target)
        if factor <= 0:
            alive = self.is_alive.copy()
            alive[links] = False
            return replace(self, is_alive=alive, is_uniform=False, is_broken=True, onward={})
        bandwidth = self.bandwidth_bytes_per_s.copy()
        bandwidth[links] *= factor
        return replace(self, bandwidth_bytes_per_s=bandwidth, is_uniform=False)


def _unit_links(dimension: Dimension) -> tuple[Ints, Ints, float, float, int]:
    """Sources, targets, bandwidth, latency a hop and switches of one copy; vertex n is its switch."""
    n, kind = dimension.num_devices, dimension.kind
    here = np.arange(n)
    bandwidth, latency_s = dimension.link.bandwidth_bytes_per_s, dimension.link.latency_s
    if kind in _SWITCHED:
        switch = np.full(n, n)
        sources, targets = np.concatenate([here, switch]), np.concatenate([switch, here])
        return sources, targets, bandwidth / dimension.oversubscription, latency_s / 2, 1
    if kind == "fully-connected":
        return np.repeat(here, n), np.tile(here, n), bandwidth / max(1, n - 1), latency_s, 0
    if kind == "ring" or n <= 2:
        return here, (here + 1) % n, bandwidth, latency_s, 0
    sources, targets = np.concatenate([here, here]), np.concatenate([(here + 1) % n, (here - 1) % n])
    return sources, targets, bandwidth / 2, latency_s, 0


def _columns_of(part: Dimension | UnitGraph) -> tuple[Ints, Ints, Floats, Floats, int]:
    """Sources, targets, bandwidths, latencies and number of switches of one copy of a dimension."""
    if isinstance(part, UnitGraph):
        source, target = (np.array([getattr(w, end) for w in part.wires]) for end in ("source", "target"))
        bandwidth = np.array([w.link.bandwidth_bytes_per_s for w in part.wires])
        return source, target, bandwidth, np.array([w.link.latency_s for w in part.wires]), part.num_switches
    source, target, rate, wait_s, num_switches = _unit_links(part)
    return source, target, np.full(len(source), rate), np.full(len(source), wait_s), num_switches


def network_graph(parts: Topology | Sequence[Dimension | UnitGraph]) -> LinkGraph:
    """The links of a topology, or of a list of dimensions some of which are explicit graphs, innermost first."""
    listed = parts.dimensions if isinstance(parts, Topology) else tuple(parts)
    num_devices = math.prod(part.num_devices for part in listed)
    blocks: list[Block] = []
    columns: list[tuple[Ints, Ints, Floats, Floats]] = []
    stride, first_link, first_switch = 1, 0, num_devices
    for part in listed:
        source, target, bandwidth, latency, num_switches = _columns_of(part)
        copies = num_devices // part.num_devices
        block = Block(
            name=part.name, kind="graph" if isinstance(part, UnitGraph) else part.kind, num_devices=part.num_devices,
            stride=stride, first_link=first_link, num_links=len(source), first_switch=first_switch,
            num_switches=num_switches, unit=part if isinstance(part, UnitGraph) else None,
        )  # fmt: skip
        columns.append(_copied(block, copies, source, target, bandwidth, latency))
        blocks.append(block)
        stride *= part.num_devices
        first_link, first_switch = first_link + copies * len(source), first_switch + copies * num_switches
    sources, targets, bandwidths, latencies = (np.concatenate(list(c)) for c in zip(*columns, strict=True))
    return LinkGraph(
        num_devices=num_devices, num_vertices=first_switch, blocks=tuple(blocks), source=sources, target=targets,
        bandwidth_bytes_per_s=bandwidths, latency_s=latencies, is_alive=_used(blocks, len(sources), num_devices),
    )  # fmt: skip


def _used(blocks: Sequence[Block], num_links: int, num_devices: int) -> NDArray[np.bool_]:
    is_used = np.ones(num_links, bool)
    for block in blocks:
        n = block.num_devices
        unit = np.ones(block.num_links, bool)
        if block.kind == "mesh" and n > 2:
            unit[[n - 1, n]] = False  # from the last device on, and from the first back
        elif block.kind == "fully-connected":
            unit[:: n + 1] = False  # to itself
        last = block.first_link + block.num_links * (num_devices // n)
        is_used[block.first_link : last] = np.tile(unit, num_devices // n)
    return is_used


def _copied(
    block: Block, copies: int, source: Ints, target: Ints, bandwidth: Floats, latency: Floats
) -> tuple[Ints, Ints, Floats, Floats]:
    copy = np.arange(copies)[:, None]

    def placed(vertex: Ints) -> Ints:
        device = copy // block.stride * block.stride * block.num_devices + copy % block.stride + vertex * block.stride
        switch = block.first_switch + copy * block.num_switches + vertex - block.num_devices
        return np.where(vertex < block.num_devices, device, switch).ravel()

    return placed(source[None, :]), placed(target[None, :]), np.tile(bandwidth, copies), np.tile(latency, copies)


def coordinate(block: Block, devices: Ints) -> Ints:
    return devices // block.stride % block.num_devices


def copy_of(block: Block, devices: Ints) -> Ints:
    outer = block.stride * block.num_devices
    return devices // outer * block.stride + devices % block.stride


def switch_of(block: Block, devices: Ints) -> Ints:
    """The vertex of the switch each device hangs on in this dimension."""
    if block.kind not in _SWITCHED:
        raise InvalidInput(f"in-switch reduction needs a switch; dimension {block.name} is a {block.kind}")
    return block.first_switch + copy_of(block, devices)
