"""MI355X platforms of eight, fully connected, on 400 Gb/s Ethernet."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._meshed_boxes import meshed_boxes
from dovetail.hardware.clusters._nodes import GIGABIT

DATASHEET = "AMD Instinct MI355X platform datasheet (2025)"


def mi355x_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "mi355x-nodes",
        "mi355x",
        num_devices,
        box_source=f"{DATASHEET}: seven Infinity Fabric links of 153.6 GB/s both ways a device",
        port_bytes_per_s=400 * GIGABIT,
        port_source="estimate: one 400 Gb/s port a device (AMD Pensando Pollara)",
        library="rccl-mi300x",
    )


clusters.register("mi355x-nodes")(
    ClusterEntry(
        build=mi355x_nodes,
        default_devices=64,
        summary="MI355X, 8 fully connected (537.6 GB/s in all), 400 Gb/s per device between platforms",
    )
)
