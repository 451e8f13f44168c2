"""HGX H20 nodes on an NDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._nodes import GIGABIT

SOURCES = (
    ("nvlink.bandwidth", "NVIDIA H20 product brief (2023): NVLink, 900 GB/s both ways a GPU"),
    ("infiniband.bandwidth", "estimate: eight NDR ports of 400 Gb/s for eight GPUs, as of HGX H100"),
    ("num_devices", "estimate: three tiers of 64-port NDR switches, one port a GPU; any whole number of nodes of 8"),
)


def hgx_h20(num_devices: int) -> Cluster:
    return dgx_cluster(
        "hgx-h20",
        "h20-sxm",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        num_most=three_tier_ports(64),
        sources=SOURCES,
        library="nccl-h100",
    )


clusters.register("hgx-h20")(
    ClusterEntry(
        build=hgx_h20,
        default_devices=64,
        summary="H20, 8 a node on NVSwitch (450 GB/s), 400 Gb/s NDR a GPU, non-blocking",
    )
)
