"""MI300X platforms of eight, fully connected, on 400 Gb/s Ethernet or InfiniBand."""

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

DATASHEET = "AMD Instinct MI300X platform datasheet (2023)"
SOURCES = (
    ("box.bandwidth", f"{DATASHEET}: seven Infinity Fabric links of 128 GB/s both ways a device, to all seven others"),
    ("box.latency", f"estimate: as a PCIe hop, 2.5 us, of {NCCL_TUNING}; RCCL is built on NCCL"),
    ("fabric.bandwidth", "estimate: one 400 Gb/s port a device, as in the public cloud instances"),
    ("fabric.latency", NETWORK_LATENCY_SOURCE),
    ("num_devices", "estimate: three tiers of 64-port switches; any whole number of platforms of 8"),
)


def mi300x_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "mi300x-nodes",
        "mi300x",
        num_devices,
        box_latency_s=PCIE_LATENCY_S,
        network=Link(bandwidth_bytes_per_s=400 * GIGABIT, latency_s=NETWORK_LATENCY_S),
        num_most=three_tier_ports(64),
        sources=SOURCES,
    )


clusters.register("mi300x-nodes")(
    ClusterEntry(
        build=mi300x_nodes,
        default_devices=64,
        summary="MI300X, 8 fully connected (448 GB/s in all), 400 Gb/s a device between platforms",
    )
)
