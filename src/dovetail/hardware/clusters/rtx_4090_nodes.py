"""Eight GeForce RTX 4090 in a server, peers through the host."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def rtx_4090_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "rtx-4090-nodes",
        "rtx-4090",
        num_devices,
        pcie_bytes_per_s=32 * GIGA,
        network_bytes_per_s=25 * GIGABIT,
        pcie_source="NVIDIA Ada GPU architecture white paper (2022): PCIe Gen4 x16, 64 GB/s both ways",
        network_source="estimate: two 100 Gb/s ports for eight cards",
    )


clusters.register("rtx-4090-nodes")(
    ClusterEntry(
        build=rtx_4090_nodes,
        default_devices=8,
        summary="RTX 4090, PCIe Gen4 in the server, 25 Gb/s per GPU between servers",
    )
)
