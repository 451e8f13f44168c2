"""Eight A10G cards in a server, as Amazon rents them."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def a10g_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "a10g-nodes",
        "a10g",
        num_devices,
        pcie_bytes_per_s=32 * GIGA,
        network_bytes_per_s=12.5 * GIGABIT,
        pcie_source="NVIDIA A10G datasheet (2021): PCIe Gen4 x16, 64 GB/s both ways",
        network_source="Amazon EC2 g5.48xlarge: 100 Gb/s for eight cards",
    )


clusters.register("a10g-nodes")(
    ClusterEntry(
        build=a10g_nodes,
        default_devices=8,
        summary="A10G, PCIe Gen4 in the server, 12.5 Gb/s per GPU between servers",
    )
)
