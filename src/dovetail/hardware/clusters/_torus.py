"""Tori of directly linked chips: which shape a number of chips takes, and which of its sides close into rings."""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections.abc import Callable

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._hosts import NodeHost, with_host
from dovetail.hardware.clusters._nodes import checked_count
from dovetail.hardware.link import Link
from dovetail.hardware.topology import XLA_ICI, Dimension, Topology
from dovetail.units import MICRO

Shape = tuple[int, ...]
SIDE_NAMES = ("x", "y", "z")
ICI_LATENCY_S = 1.0 * MICRO
ICI_LATENCY_SOURCE = "estimate: the scaling book works with 0.5 to 1 us a hop; the slower, as software is included"


def cube_shapes(side: int, most: Shape) -> tuple[Shape, ...]:
    """Every box of `side`-sided cubes, shortest side first, with at most `most` of them along each side."""
    ranges = [range(1, limit + 1) for limit in sorted(most)]
    boxes = itertools.product(*ranges)
    return tuple(tuple(side * n for n in box) for box in boxes if tuple(sorted(box)) == box)


def shape_of(family: str, num_devices: int, shapes: tuple[Shape, ...]) -> Shape:
    """The shape of `num_devices` chips; of several, the one nearest to a cube (least sum of sides)."""
    by_count: dict[int, Shape] = {}
    for shape in sorted(shapes, key=sum, reverse=True):
        by_count[math.prod(shape)] = shape
    counts = sorted(by_count)
    checked_count(family, num_devices, counts[-1])
    if num_devices not in by_count:
        place = bisect(counts, num_devices)
        raise InvalidInput(
            f"{family} has no slice of {num_devices} chips; try {counts[place - 1]} or {counts[place]}", "num_devices"
        )
    return by_count[num_devices]


def torus(
    shape: Shape, link_bytes_per_s: float, latency_s: float, wraps: Callable[[int], bool], library: str = ""
) -> Topology:
    """One dimension a side; a side that wraps is a ring used both ways, another one a line.

    A chip has two links a side, so it sends at twice the link rate; on a line of two it has one. Sides of one chip are
    left out.
    """
    dimensions = []
    for name, side in zip(SIDE_NAMES, shape, strict=False):
        if side == 1 and max(shape) > 1:
            continue
        num_links = 2 if wraps(side) or side > 2 else 1
        link = Link(bandwidth_bytes_per_s=num_links * link_bytes_per_s, latency_s=latency_s)
        kind = "bidirectional-ring" if wraps(side) else "mesh"
        dimensions.append(Dimension(name=name, kind=kind, num_devices=side, link=link, library=library))
        if max(shape) == 1:
            break
    return Topology(dimensions=tuple(dimensions))


def pod(
    family: str,
    chip_name: str,
    num_devices: int,
    *,
    shapes: tuple[Shape, ...],
    wraps: Callable[[int], bool],
    bandwidth_source: str,
    slice_source: str,
    host: NodeHost,
) -> Cluster:
    """A slice of a TPU pod: the chip's links shared evenly by the sides of its torus, and hosts of some chips each."""
    chip = chips[chip_name]()
    shape = shape_of(family, num_devices, shapes)
    link_bytes_per_s = chip.interconnect_bytes_per_s / (2 * len(shape))
    sides = SIDE_NAMES[: len(shape)]
    cluster = Cluster(
        name=family,
        chip=chip,
        topology=torus(shape, link_bytes_per_s, ICI_LATENCY_S, wraps, XLA_ICI),
        sources=(
            *((f"{side}.bandwidth", bandwidth_source) for side in sides),
            *((f"{side}.latency", ICI_LATENCY_SOURCE) for side in sides),
            ("num_devices", slice_source),
        ),
    )
    return with_host(cluster, host)
