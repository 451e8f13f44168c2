"""Frontier: nodes of four MI250X on Slingshot 11, a dragonfly of 74 groups of 128 nodes."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT, PCIE_LATENCY_S, filled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, MICRO

PAPER = "Atchley et al., Frontier: Exploring Exascale (SC 2023)"
GLOBAL_FRAC = 0.57  # of what a group's nodes send that its global links carry
SOURCES = (
    ("node.bandwidth", f"{PAPER}, recalled: two or more Infinity Fabric links to each other MI250X of the node"),
    ("node.latency", "estimate: as a PCIe hop of NCCL's tuning model, 2.5 us, software included"),
    ("group.bandwidth", f"{PAPER}: four Slingshot NICs of 200 Gb/s a node, one beside each MI250X"),
    ("group.latency", "estimate: De Sensi et al. (SC 2020), Slingshot: some 2 us between nodes; twice that with RCCL"),
    ("dragonfly.bandwidth", f"{PAPER}: global links carry 57 % of what groups send; all groups are joined to all"),
    ("dragonfly.latency", "estimate: one more switch and a global cable, 1 us above that inside a group"),
    ("num_devices", f"{PAPER}: 74 groups of 128 nodes with four MI250X"),
)
DIMENSIONS = (
    Dimension(
        name="node",
        kind="fully-connected",
        num_devices=4,
        link=Link(bandwidth_bytes_per_s=300 * GIGA, latency_s=PCIE_LATENCY_S),
    ),
    Dimension(
        name="group",
        kind="switch",
        num_devices=128,
        link=Link(bandwidth_bytes_per_s=200 * GIGABIT, latency_s=4 * MICRO),
    ),
    Dimension(
        name="dragonfly",
        kind="fully-connected",
        num_devices=74,
        link=Link(bandwidth_bytes_per_s=GLOBAL_FRAC * 200 * GIGABIT, latency_s=5 * MICRO),
    ),
)


def frontier(num_devices: int) -> Cluster:
    topology = filled("frontier", num_devices, DIMENSIONS)
    return Cluster(name="frontier", chip=chips["mi250x"](), topology=topology, sources=SOURCES)


clusters.register("frontier")(
    ClusterEntry(
        build=frontier,
        default_devices=4096,
        summary="MI250X, four in a node, 200 Gb/s per device, a dragonfly of 74 groups of 512 devices",
    )
)
