"""GB300 NVL72 racks: 72 GPUs on one NVLink switch, racks on an XDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._nvl72 import nvl72_cluster


def gb300_nvl72(num_devices: int) -> Cluster:
    return nvl72_cluster(
        "gb300",
        num_devices,
        port_bytes_per_s=800 * GIGABIT,
        port_source="72 ConnectX-8 ports of 800 Gb/s a rack",
        size_source="estimate: three tiers of 64-port switches, one port a GPU",
        year=2025,
    )


clusters.register("gb300-nvl72")(
    ClusterEntry(
        build=gb300_nvl72,
        default_devices=576,
        summary="GB300, 72 in one NVLink domain (900 GB/s), 800 Gb/s XDR a GPU between racks",
    )
)
