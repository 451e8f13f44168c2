"""Eight V100 PCIe cards in a server."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._pcie_nodes import pcie_cluster
from dovetail.units import GIGA


def v100_pcie_nodes(num_devices: int) -> Cluster:
    return pcie_cluster(
        "v100-pcie-nodes",
        "v100-32gb-pcie",
        num_devices,
        pcie_bytes_per_s=15.75 * GIGA,
        network_bytes_per_s=25 * GIGABIT,
        pcie_source="NVIDIA Tesla V100 GPU accelerator datasheet (2018): PCIe Gen3 x16, 32 GB/s both ways",
        network_source="estimate: two 100 Gb/s ports for eight cards, as in common servers of 2018",
    )


clusters.register("v100-pcie-nodes")(
    ClusterEntry(
        build=v100_pcie_nodes,
        default_devices=8,
        summary="V100 PCIe, PCIe Gen3 in the server, 25 Gb/s per GPU between servers",
    )
)
