"""GB200 NVL72 racks: 72 GPUs on one NVLink switch, racks on an NDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._nvl72 import nvl72_cluster


def gb200_nvl72(num_devices: int) -> Cluster:
    return nvl72_cluster(
        "gb200",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        port_source="72 ConnectX-7 ports of 400 Gb/s a rack; 800 Gb/s came with GB300",
        size_source="three tiers of 64-port NDR switches reach 65536 ports, one a GPU",
        year=2024,
    )


clusters.register("gb200-nvl72")(
    ClusterEntry(
        build=gb200_nvl72,
        default_devices=576,
        summary="GB200, 72 in one NVLink domain (900 GB/s), 400 Gb/s NDR a GPU between racks",
    )
)
