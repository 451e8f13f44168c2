"""Eight L4 cards in a server, as Amazon rents them."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def l4_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "l4-nodes",
        "l4",
        num_devices,
        pcie_bytes_per_s=32 * GIGA,
        network_bytes_per_s=12.5 * GIGABIT,
        pcie_source="NVIDIA L4 datasheet (2023): PCIe Gen4 x16, 64 GB/s both ways",
        network_source="Amazon EC2 g6.48xlarge: 100 Gb/s for eight cards",
    )


clusters.register("l4-nodes")(
    ClusterEntry(
        build=l4_nodes,
        default_devices=8,
        summary="L4, PCIe Gen4 in the server, 12.5 Gb/s per GPU between servers",
    )
)
