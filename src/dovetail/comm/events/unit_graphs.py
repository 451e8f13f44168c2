"""Explicit link graphs of one dimension: read from a file, or built as a Clos, a dragonfly or a twisted torus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import InvalidInput
from dovetail.hardware.link import Link

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One directed channel between two vertices; devices come first, then switches."""

    source: int
    target: int
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitGraph:
    """`num_devices` devices and `num_switches` switches joined by wires."""

    name: str
    num_devices: int
    num_switches: int
    wires: tuple[Wire, ...]

    def __post_init__(self) -> None:
        num_vertices = self.num_devices + self.num_switches
        for wire in self.wires:
            if not (0 <= wire.source < num_vertices and 0 <= wire.target < num_vertices):
                ends = f"{wire.source}->{wire.target}"
                raise InvalidInput(f"a link joins vertices below {num_vertices}; got {ends}", self.name)


def both_ways(a: int, b: int, link: Link) -> tuple[Wire, Wire]:
    return Wire(source=a, target=b, link=link), Wire(source=b, target=a, link=link)


def _hop(link: Link, factor: float = 1.0) -> Link:
    """One of the two hops through a switch: half of the latency, as in a dimension that is a switch."""
    return Link(bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * factor, latency_s=link.latency_s / 2)


def clos(
    name: str, num_devices: int, num_leaf_devices: int, num_spines: int, link: Link, oversubscription: float
) -> UnitGraph:
    """Leaves under `num_spines` spines; the uplinks of a leaf carry what its devices send / oversubscription.

    The latency of `link` is that from device to device under one leaf; between leaves there are twice as many hops.
    """
    if num_devices % num_leaf_devices:
        raise InvalidInput(f"leaf={num_leaf_devices} must divide the {num_devices} devices", name)
    num_leaves = num_devices // num_leaf_devices
    uplink = _hop(link, num_leaf_devices / oversubscription / num_spines)
    wires: list[Wire] = []
    for device in range(num_devices):
        wires += both_ways(device, num_devices + device // num_leaf_devices, _hop(link))
    for leaf in range(num_leaves):
        for spine in range(num_spines):
            wires += both_ways(num_devices + leaf, num_devices + num_leaves + spine, uplink)
    return UnitGraph(name=name, num_devices=num_devices, num_switches=num_leaves + num_spines, wires=tuple(wires))


def dragonfly(
    name: str, num_groups: int, routers_per_group: int, devices_per_router: int, link: Link, global_link: Link
) -> UnitGraph:
    """Routers of a group all joined; groups all joined by one global link each, spread over a group's routers.

    The latency of `link` is that from device to device at one router, half of it a hop; a global link has its own.
    Source: Kim, Dally, Scott & Abts, ISCA 2008 (the canonical arrangement, minimal routes).
    """
    num_routers = num_groups * routers_per_group
    num_devices = num_routers * devices_per_router
    wires: list[Wire] = []
    for device in range(num_devices):
        wires += both_ways(device, num_devices + device // devices_per_router, _hop(link))
    for group in range(num_groups):
        first = num_devices + group * routers_per_group
        for a in range(routers_per_group):
            for b in range(a):
                wires += both_ways(first + b, first + a, _hop(link))
    for a in range(num_groups):
        for b in range(a):
            router_a = num_devices + a * routers_per_group + b % routers_per_group
            router_b = num_devices + b * routers_per_group + (a - 1) % routers_per_group
            wires += both_ways(router_b, router_a, global_link)
    return UnitGraph(name=name, num_devices=num_devices, num_switches=num_routers, wires=tuple(wires))


def torus_graph(name: str, sides: tuple[int, ...], link: Link, *, is_twisted: bool = False) -> UnitGraph:
    """A torus as one graph; twisted, where a way round a shorter side ends half of every longer one further on.

    Of sides k x k x 2k and k x 2k x 2k, which optical switches close as they like: the twist makes all of them look as
    long, so that fewer links are passed on the mean. The bandwidth of `link` is that of each side, half of it a
    direction. Source: Camarero, Martinez & Beivide, IEEE TC 2010; Jouppi et al., ISCA 2023 (TPU v4).
    """
    if min(sides) < 3:
        raise InvalidInput(f"the sides of a torus as a graph have 3 devices or more; got {min(sides)}", name)
    if is_twisted and (len(sides) != 3 or sorted(sides)[-1] != 2 * sorted(sides)[0] or len(set(sides)) != 2):
        shown = "x".join(map(str, sides))
        raise InvalidInput(f"a twisted torus is k x k x 2k or k x 2k x 2k; got {shown}", name)
    one_way = Link(bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / 2, latency_s=link.latency_s)
    numbers = np.arange(int(np.prod(sides))).reshape(sides)
    wires: list[Wire] = []
    for axis, side in enumerate(sides):
        after = np.roll(numbers, -1, axis)
        longer = [other for other, length in enumerate(sides) if length > side] if is_twisted else []
        for other in longer:
            last = [slice(None)] * len(sides)
            last[axis] = slice(side - 1, side)
            after[tuple(last)] = np.roll(after[tuple(last)], -(sides[other] // 2), other)
        for a, b in zip(numbers.ravel().tolist(), after.ravel().tolist(), strict=True):
            wires += both_ways(a, b, one_way)
    return UnitGraph(name=name, num_devices=numbers.size, num_switches=0, wires=tuple(wires))


def next_links(num_vertices: int, source: Ints, target: Ints, alive: NDArray[np.bool_], goal: int) -> Ints:
    """For every vertex, the link that starts a shortest way to `goal`, or -1 where there is none.

    Equal ways are shared out by destination, as destination-hashed ECMP does; lowest link first.
    """
    into: list[list[int]] = [[] for _ in range(num_vertices)]
    for index in np.flatnonzero(alive).tolist():
        into[int(target[index])].append(index)
    hops = np.full(num_vertices, -1, np.int64)
    hops[goal] = 0
    frontier = [goal]
    choices: dict[int, list[int]] = {}
    while frontier:
        found: list[int] = []
        for vertex in frontier:
            for index in into[vertex]:
                before = int(source[index])
                if hops[before] < 0:
                    hops[before] = hops[vertex] + 1
                    found.append(before)
                if hops[before] == hops[vertex] + 1:
                    choices.setdefault(before, []).append(index)
        frontier = found
    onward = np.full(num_vertices, -1, np.int64)
    for vertex, links in choices.items():
        links.sort()
        onward[vertex] = links[goal % len(links)]
    return onward
