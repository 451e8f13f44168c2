"""Nodes of four GH200, every pair joined by NVLink, on Slingshot 11 as in Alps."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT, NVLINK_LATENCY_S, filled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, MICRO

SOURCES = (
    (
        "node.bandwidth",
        "Fusco et al., Alps (2024), recalled: six NVLink4 links to each neighbour, 150 GB/s one way",
    ),
    (
        "node.latency",
        "NCCL's own tuning model (src/graph/tuning.cc), ring, LL128: 1.9 us a hop over NVLink, software included",
    ),
    ("slingshot.bandwidth", "HPE Cray EX254n blade (Alps): one 200 Gb/s Slingshot NIC a superchip"),
    (
        "slingshot.latency",
        "estimate: De Sensi et al. (SC 2020), Slingshot: some 2 us between nodes; twice that with NCCL",
    ),
    ("num_devices", "Alps, CSCS (2024): 10,752 superchips in nodes of four"),
)
DIMENSIONS = (
    Dimension(
        name="node",
        kind="fully-connected",
        num_devices=4,
        link=Link(bandwidth_bytes_per_s=450 * GIGA, latency_s=NVLINK_LATENCY_S),
    ),
    Dimension(
        name="slingshot",
        kind="fat-tree",
        num_devices=2688,
        link=Link(bandwidth_bytes_per_s=200 * GIGABIT, latency_s=4 * MICRO),
        is_network=True,
    ),
)


def gh200_nodes(num_devices: int) -> Cluster:
    topology = filled("gh200-nodes", num_devices, DIMENSIONS)
    return Cluster(name="gh200-nodes", chip=chips["gh200"](), topology=topology, sources=SOURCES)


clusters.register("gh200-nodes")(
    ClusterEntry(
        build=gh200_nodes,
        default_devices=64,
        summary="GH200, four fully connected in a node (450 GB/s in all), 200 Gb/s Slingshot a GPU",
    )
)
