"""Eight RTX PRO 6000 Blackwell Server Edition cards in a server."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def rtx_pro_6000_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "rtx-pro-6000-nodes",
        "rtx-pro-6000",
        num_devices,
        pcie_bytes_per_s=64 * GIGA,
        network_bytes_per_s=200 * GIGABIT,
        pcie_source="NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet (2025): PCIe Gen5 x16, 128 GB/s both ways",
        network_source="Amazon EC2 g7e.48xlarge: 1,600 Gb/s of EFA for eight cards",
    )


clusters.register("rtx-pro-6000-nodes")(
    ClusterEntry(
        build=rtx_pro_6000_nodes,
        default_devices=8,
        summary="RTX PRO 6000, PCIe Gen5 in the server, 200 Gb/s per GPU between servers",
    )
)
