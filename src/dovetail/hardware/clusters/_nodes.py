"""Clusters made of equal nodes: how a number of devices fills them, and what the links of several families share."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from dovetail.errors import InvalidInput
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import BITS_PER_BYTE, GIGA, MICRO

GIGABIT = GIGA / BITS_PER_BYTE  # network ports are sold in Gb/s; 400 * GIGABIT is in bytes/s

NCCL_TUNING = "NCCL's own tuning model (src/graph/tuning.cc), ring, LL128"
NVLINK_LATENCY_S = 1.9 * MICRO  # NCCL tuning model: NVLink 0.47 us LL, 1.9 us LL128, 3.4 us Simple
PCIE_LATENCY_S = 2.5 * MICRO  # NCCL tuning model: PCI 1.0 us LL, 2.5 us LL128, 5.7 us Simple
NETWORK_LATENCY_S = 4.0 * MICRO  # NCCL tuning model: network 2.7 us LL, 4.0 us LL128, 9.6 us Simple
ROCE_LATENCY_S = 5.0 * MICRO
NVLINK_LATENCY_SOURCE = f"{NCCL_TUNING}: 1.9 us a hop over NVLink, software included"
PCIE_LATENCY_SOURCE = f"{NCCL_TUNING}: 2.5 us a hop over PCIe, software included"
NETWORK_LATENCY_SOURCE = f"{NCCL_TUNING}: 4.0 us a hop over the network, software included"
ROCE_LATENCY_SOURCE = (
    f"estimate: {NCCL_TUNING} has 4.0 us for a network hop; one more for deep-buffered Ethernet switches"
)


def checked_count(family: str, num_devices: int, most: int) -> None:
    """Refuse what no cluster of the family can be: less than one device, or more than it holds."""
    if num_devices < 1:
        raise InvalidInput(f"a cluster has at least 1 device; got {num_devices}; try 1", "num_devices")
    if num_devices > most:
        raise InvalidInput(f"{family} holds at most {most} devices; got {num_devices}; try {most}", "num_devices")


def fills(num_devices: int, dimensions: tuple[Dimension, ...]) -> bool:
    """Whether `num_devices` fill every dimension but the outermost they reach."""
    for dimension in dimensions:
        if num_devices <= dimension.num_devices:
            return True
        if num_devices % dimension.num_devices:
            return False
        num_devices //= dimension.num_devices
    return False


def filled(family: str, num_devices: int, dimensions: tuple[Dimension, ...]) -> Topology:
    """The topology of `num_devices` that fill `dimensions` from the inside out.

    `dimensions` give the family at its largest. Every dimension but the outermost in use must be full, so that all
    nodes are equal; a cluster smaller than one node has only the inner dimensions.
    """
    checked_count(family, num_devices, math.prod(dimension.num_devices for dimension in dimensions))
    if not fills(num_devices, dimensions):
        raise _uneven(family, num_devices, dimensions)
    used: list[Dimension] = []
    for dimension in dimensions:
        used.append(replace(dimension, num_devices=min(num_devices, dimension.num_devices)))
        if num_devices <= dimension.num_devices:
            break
        num_devices //= dimension.num_devices
    return Topology(dimensions=tuple(used))


def _uneven(family: str, num_devices: int, dimensions: tuple[Dimension, ...]) -> InvalidInput:
    below = next(n for n in range(num_devices, 0, -1) if fills(n, dimensions))
    above = next(n for n in itertools.count(num_devices) if fills(n, dimensions))
    groups = " of ".join(f"{dimension.num_devices} ({dimension.name})" for dimension in dimensions[:-1])
    return InvalidInput(
        f"{family} comes in whole groups of {groups}; got {num_devices} devices; try {below} or {above}", "num_devices"
    )
