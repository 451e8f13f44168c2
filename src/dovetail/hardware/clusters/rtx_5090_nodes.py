"""Eight GeForce RTX 5090 in a server, peers through the host."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def rtx_5090_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "rtx-5090-nodes",
        "rtx-5090",
        num_devices,
        pcie_bytes_per_s=64 * GIGA,
        network_bytes_per_s=25 * GIGABIT,
        pcie_source="NVIDIA RTX Blackwell white paper (2025): PCIe Gen5 x16, 128 GB/s both ways",
        network_source="estimate: two 100 Gb/s ports for eight cards",
    )


clusters.register("rtx-5090-nodes")(
    ClusterEntry(
        build=rtx_5090_nodes,
        default_devices=8,
        summary="RTX 5090, PCIe Gen5 in the server, 25 Gb/s per GPU between servers",
    )
)
