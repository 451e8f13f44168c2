"""Eight P100 PCIe cards in a server."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def p100_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "p100-nodes",
        "p100",
        num_devices,
        pcie_bytes_per_s=15.75 * GIGA,
        network_bytes_per_s=12.5 * GIGABIT,
        pcie_source="NVIDIA Tesla P100 PCIe datasheet (2016): PCIe Gen3 x16, 32 GB/s both ways",
        network_source="estimate: one 100 Gb/s port for eight cards, as in common servers of 2016",
    )


clusters.register("p100-nodes")(
    ClusterEntry(
        build=p100_nodes,
        default_devices=8,
        summary="P100 PCIe, PCIe Gen3 in the server, 12.5 Gb/s per GPU between servers",
    )
)
