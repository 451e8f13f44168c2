"""Atlas 800T A2 servers of eight Ascend 910B, fully connected, on 200 Gb/s RoCE."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import three_tier_ports
from dovetail.hardware.clusters._meshed_boxes import meshed_boxes
from dovetail.hardware.clusters._nodes import (
    GIGABIT,
    NCCL_TUNING,
    NETWORK_LATENCY_S,
    NETWORK_LATENCY_SOURCE,
    PCIE_LATENCY_S,
)
from dovetail.hardware.link import Link

SOURCES = (
    ("box.bandwidth", "Atlas 800T A2, Huawei (2023): HCCS, 392 GB/s both ways a module to the seven others"),
    ("box.latency", f"estimate: as a PCIe hop, 2.5 us, of {NCCL_TUNING}"),
    ("fabric.bandwidth", "Atlas 800T A2, Huawei (2023): eight 200 Gb/s RoCE ports"),
    ("fabric.latency", NETWORK_LATENCY_SOURCE),
    ("num_devices", "estimate: three tiers of 64-port switches; any whole number of boxes of 8"),
)


def ascend_910b_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "ascend-910b-nodes",
        "ascend-910b",
        num_devices,
        box_latency_s=PCIE_LATENCY_S,
        network=Link(bandwidth_bytes_per_s=200 * GIGABIT, latency_s=NETWORK_LATENCY_S),
        num_most=three_tier_ports(64),
        sources=SOURCES,
    )


clusters.register("ascend-910b-nodes")(
    ClusterEntry(
        build=ascend_910b_nodes,
        default_devices=64,
        summary="Ascend 910B, 8 fully connected (196 GB/s in all), 200 Gb/s per device between servers",
    )
)
