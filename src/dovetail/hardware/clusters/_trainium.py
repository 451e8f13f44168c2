"""Trainium instances: whole tori of chips, joined by Elastic Fabric Adapters."""

from __future__ import annotations

import math
from dataclasses import replace

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._nodes import checked_count
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import MICRO

NEURONLINK_LATENCY_S = 2.0 * MICRO
EFA_LATENCY_S = 15 * MICRO
NEURONLINK_LATENCY_SOURCE = "estimate: 2 us a hop, as NVLink under NCCL; AWS publishes none"
EFA_LATENCY_SOURCE = "estimate: public EFA ping-pong figures of 15 to 20 us (AWS SRD paper, 2020, recalled)"
NUM_MOST_ULTRACLUSTER = 30000 // 64 * 64
ULTRACLUSTER_SOURCE = "AWS: Trn1 UltraClusters of up to 30000 chips; whole instances only, or a single chip"


def side(name: str, num_devices: int, bytes_per_s: float) -> Dimension:
    """One side of a torus: a ring used both ways; `bytes_per_s` leaves the chip over its two links of that side."""
    link = Link(bandwidth_bytes_per_s=bytes_per_s, latency_s=NEURONLINK_LATENCY_S)
    return Dimension(name=name, kind="bidirectional-ring", num_devices=num_devices, link=link)


def trainium_cluster(
    family: str,
    chip_name: str,
    num_devices: int,
    *,
    sides: tuple[Dimension, ...],
    efa_bytes_per_s: float,
    sources: tuple[tuple[str, str], ...],
) -> Cluster:
    """One chip, or whole groups of `sides`; `efa_bytes_per_s` is the share of one chip."""
    num_group = math.prod(dimension.num_devices for dimension in sides)
    checked_count(family, num_devices, NUM_MOST_ULTRACLUSTER)
    if num_devices == 1:
        sides = (replace(sides[0], num_devices=1),)
    elif num_devices % num_group:
        below = num_devices // num_group * num_group or 1
        above = (num_devices // num_group + 1) * num_group
        raise InvalidInput(
            f"{family} comes as 1 chip or in groups of {num_group}; got {num_devices}; try {below} or {above}",
            "num_devices",
        )
    elif num_devices > num_group:
        efa = Link(bandwidth_bytes_per_s=efa_bytes_per_s, latency_s=EFA_LATENCY_S)
        sides = (*sides, Dimension(name="efa", kind="fat-tree", num_devices=num_devices // num_group, link=efa))
    own = (
        *((f"{dimension.name}.latency", NEURONLINK_LATENCY_SOURCE) for dimension in sides if dimension.name != "efa"),
        ("efa.latency", EFA_LATENCY_SOURCE),
        ("num_devices", ULTRACLUSTER_SOURCE),
    )
    return Cluster(name=family, chip=chips[chip_name](), topology=Topology(dimensions=sides), sources=(*own, *sources))
