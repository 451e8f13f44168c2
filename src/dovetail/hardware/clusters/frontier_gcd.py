"""Frontier by graphics dies, as drivers and ROCm show them: eight in a node, on Slingshot 11."""

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
        "module.bandwidth",
        "AMD CDNA 2 white paper (2021): four Infinity Fabric links between the dies of a module, 200 GB/s one way",
    ),
    ("module.latency", "estimate: as an NVLink hop of NCCL tuning model, 1.9 us, software included"),
    (
        "node.bandwidth",
        "Atchley et al., Frontier (SC 2023), recalled: one or two links of 50 GB/s to other modules",
    ),
    ("node.latency", "estimate: as a PCIe hop of NCCL tuning model, 2.5 us, software included"),
    ("network.bandwidth", "Atchley et al. (SC 2023): four Slingshot NICs of 200 Gb/s for eight dies"),
    (
        "network.latency",
        "estimate: De Sensi et al. (SC 2020), Slingshot: some 2 us between nodes; twice that with RCCL",
    ),
    (
        "num_devices",
        "Atchley et al. (SC 2023): 74 groups of 128 nodes with eight dies; groups are not modelled here, see frontier",
    ),
)
DIMENSIONS = (
    Dimension(
        name="module",
        kind="fully-connected",
        num_devices=2,
        link=Link(bandwidth_bytes_per_s=200 * GIGA, latency_s=NVLINK_LATENCY_S),
    ),
    Dimension(
        name="node",
        kind="fully-connected",
        num_devices=4,
        link=Link(bandwidth_bytes_per_s=100 * GIGA, latency_s=2.5 * MICRO),
    ),
    Dimension(
        name="network",
        kind="fat-tree",
        num_devices=9472,
        link=Link(bandwidth_bytes_per_s=100 * GIGABIT, latency_s=4 * MICRO),
        is_network=True,
    ),
)


def frontier_gcd(num_devices: int) -> Cluster:
    topology = filled("frontier-gcd", num_devices, DIMENSIONS)
    return Cluster(name="frontier-gcd", chip=chips["mi250x-gcd"](), topology=topology, sources=SOURCES)


clusters.register("frontier-gcd")(
    ClusterEntry(
        build=frontier_gcd,
        default_devices=64,
        summary="MI250X by graphics die, eight in a node, 100 Gb/s per die between nodes",
    )
)
