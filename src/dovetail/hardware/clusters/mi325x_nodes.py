"""MI325X platforms of eight, fully connected, on 400 Gb/s Ethernet or InfiniBand."""

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
    (
        "box.bandwidth",
        "AMD Instinct MI325X platform datasheet (2024): seven Infinity Fabric links of 128 GB/s both ways a device",
    ),
    ("box.latency", f"estimate: as a PCIe hop, 2.5 us, of {NCCL_TUNING}"),
    ("fabric.bandwidth", "estimate: one 400 Gb/s port a device, as of the MI300X"),
    ("fabric.latency", NETWORK_LATENCY_SOURCE),
    ("num_devices", "estimate: three tiers of 64-port switches; any whole number of boxes of 8"),
)


def mi325x_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "mi325x-nodes",
        "mi325x",
        num_devices,
        box_latency_s=PCIE_LATENCY_S,
        network=Link(bandwidth_bytes_per_s=400 * GIGABIT, latency_s=NETWORK_LATENCY_S),
        num_most=three_tier_ports(64),
        sources=SOURCES,
        library="rccl-mi300x",
    )


clusters.register("mi325x-nodes")(
    ClusterEntry(
        build=mi325x_nodes,
        default_devices=64,
        summary="MI325X, 8 fully connected (448 GB/s in all), 400 Gb/s per device between platforms",
    )
)
