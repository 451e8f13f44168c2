"""Eight A100 80 GB PCIe cards in a server: bridged pairs, PCIe Gen4 between pairs."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def a100_pcie_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "a100-pcie-nodes",
        "a100-80gb-pcie",
        num_devices,
        pcie_bytes_per_s=32 * GIGA,
        network_bytes_per_s=100 * GIGABIT,
        pcie_source="NVIDIA A100 80GB PCIe GPU product brief (2021): PCIe Gen4 x16, 64 GB/s both ways",
        network_source="estimate: one 200 Gb/s port for two cards, as in common eight-card servers",
        bridge_source="NVIDIA A100 80GB PCIe GPU product brief (2021): NVLink bridge, 600 GB/s both ways",
    )


clusters.register("a100-pcie-nodes")(
    ClusterEntry(
        build=a100_pcie_nodes,
        default_devices=8,
        summary="A100 PCIe, bridged pairs (300 GB/s), PCIe Gen4 in the server, 100 Gb/s per GPU between servers",
    )
)
