"""Eight T4 cards in a server, as Amazon rents them."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def t4_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "t4-nodes",
        "t4",
        num_devices,
        pcie_bytes_per_s=15.75 * GIGA,
        network_bytes_per_s=12.5 * GIGABIT,
        pcie_source="NVIDIA T4 datasheet (2019): PCIe Gen3 x16, 32 GB/s both ways",
        network_source="Amazon EC2 g4dn.metal: 100 Gb/s for eight cards",
    )


clusters.register("t4-nodes")(
    ClusterEntry(
        build=t4_nodes,
        default_devices=8,
        summary="T4, PCIe Gen3 in the server, 12.5 Gb/s per GPU between servers",
    )
)
