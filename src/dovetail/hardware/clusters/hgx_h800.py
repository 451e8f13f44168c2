"""HGX H800 nodes on an NDR InfiniBand fat tree, as DeepSeek has them."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._nodes import GIGABIT

SOURCES = (
    ("nvlink.bandwidth", "NVIDIA H800 Tensor Core GPU datasheet (2023): NVLink, 400 GB/s both ways a GPU"),
    ("infiniband.bandwidth", "DeepSeek-V3 technical report (2024): eight 400 Gb/s InfiniBand ports for eight H800"),
    ("num_devices", "estimate: three tiers of 64-port NDR switches, one port a GPU; any whole number of nodes of 8"),
)


def hgx_h800(num_devices: int) -> Cluster:
    return dgx_cluster(
        "hgx-h800",
        "h800-sxm",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        num_most=three_tier_ports(64),
        sources=SOURCES,
        library="",
    )


clusters.register("hgx-h800")(
    ClusterEntry(
        build=hgx_h800,
        default_devices=64,
        summary="H800, 8 a node on NVSwitch (200 GB/s), 400 Gb/s NDR a GPU, non-blocking",
    )
)
