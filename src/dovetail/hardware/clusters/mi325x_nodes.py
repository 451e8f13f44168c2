"""MI325X platforms of eight, fully connected, on 400 Gb/s Ethernet or InfiniBand."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._meshed_boxes import meshed_boxes
from dovetail.hardware.clusters._nodes import GIGABIT

DATASHEET = "AMD Instinct MI325X platform datasheet (2024)"


def mi325x_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "mi325x-nodes",
        "mi325x",
        num_devices,
        box_source=f"{DATASHEET}: seven Infinity Fabric links of 128 GB/s both ways a device",
        port_bytes_per_s=400 * GIGABIT,
        port_source="estimate: one 400 Gb/s port a device, as of the MI300X",
        library="rccl-mi300x",
    )


clusters.register("mi325x-nodes")(
    ClusterEntry(
        build=mi325x_nodes,
        default_devices=64,
        summary="MI325X, 8 fully connected (448 GB/s in all), 400 Gb/s per device between platforms",
    )
)
