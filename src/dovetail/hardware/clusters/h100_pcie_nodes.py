"""Eight H100 PCIe cards in a server: bridged pairs, PCIe between pairs, InfiniBand between servers."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import three_tier_ports
from dovetail.hardware.clusters._nodes import (
    GIGABIT,
    NETWORK_LATENCY_S,
    NETWORK_LATENCY_SOURCE,
    NVLINK_LATENCY_S,
    NVLINK_LATENCY_SOURCE,
    PCIE_LATENCY_S,
    PCIE_LATENCY_SOURCE,
    filled,
)
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA

DATASHEET = "NVIDIA H100 Tensor Core GPU datasheet (2022)"
SOURCES = (
    ("bridge.bandwidth", f"{DATASHEET}: NVLink bridge between two cards, 600 GB/s both ways"),
    ("bridge.latency", NVLINK_LATENCY_SOURCE),
    ("pcie.bandwidth", f"{DATASHEET}: PCIe Gen5 x16, 128 GB/s both ways"),
    ("pcie.latency", PCIE_LATENCY_SOURCE),
    ("infiniband.bandwidth", "estimate: one 400 Gb/s port for two cards, as in common eight-card reference servers"),
    ("infiniband.latency", NETWORK_LATENCY_SOURCE),
    ("num_devices", "estimate: three tiers of 64-port NDR switches; any whole number of servers of 8"),
)
DIMENSIONS = (
    Dimension(
        name="bridge",
        kind="fully-connected",
        num_devices=2,
        link=Link(bandwidth_bytes_per_s=300 * GIGA, latency_s=NVLINK_LATENCY_S),
    ),
    Dimension(
        name="pcie",
        kind="switch",
        num_devices=4,
        link=Link(bandwidth_bytes_per_s=64 * GIGA, latency_s=PCIE_LATENCY_S),
    ),
    Dimension(
        name="infiniband",
        kind="fat-tree",
        num_devices=three_tier_ports(64) // 8,
        link=Link(bandwidth_bytes_per_s=200 * GIGABIT, latency_s=NETWORK_LATENCY_S),
    ),
)


def h100_pcie_nodes(num_devices: int) -> Cluster:
    topology = filled("h100-pcie-nodes", num_devices, DIMENSIONS)
    return Cluster(name="h100-pcie-nodes", chip=chips["h100-pcie"](), topology=topology, sources=SOURCES)


clusters.register("h100-pcie-nodes")(
    ClusterEntry(
        build=h100_pcie_nodes,
        default_devices=8,
        summary="H100 PCIe, bridged pairs (300 GB/s), PCIe Gen5 in the server, 200 Gb/s per GPU between servers",
    )
)
