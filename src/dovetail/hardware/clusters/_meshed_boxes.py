"""Boxes of eight where every device has its own links to the seven others, boxes on an Ethernet or InfiniBand tree."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._nodes import filled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension

NUM_BOX = 8


def meshed_boxes(
    family: str,
    chip_name: str,
    num_devices: int,
    *,
    box_latency_s: float,
    network: Link,
    num_most: int,
    sources: tuple[tuple[str, str], ...],
    library: str = "",
) -> Cluster:
    """`num_devices` in boxes of eight; the chip's scale-up links are shared evenly by its seven neighbours.

    In a box filled in part, the links to absent neighbours carry nothing.
    """
    chip = chips[chip_name]()
    num_neighbours = max(1, min(num_devices, NUM_BOX) - 1)
    used_bytes_per_s = chip.interconnect_bytes_per_s * num_neighbours / (NUM_BOX - 1)
    box = Dimension(
        name="box",
        kind="fully-connected",
        num_devices=NUM_BOX,
        link=Link(bandwidth_bytes_per_s=used_bytes_per_s, latency_s=box_latency_s),
        library=library,
    )
    fabric = Dimension(
        name="fabric", kind="fat-tree", num_devices=num_most // NUM_BOX, link=network, library=library, is_network=True
    )
    return Cluster(name=family, chip=chip, topology=filled(family, num_devices, (box, fabric)), sources=sources)
