"""Gaudi 3 servers of eight with Ethernet inside and out."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import three_tier_ports
from dovetail.hardware.clusters._meshed_boxes import meshed_boxes
from dovetail.hardware.clusters._nodes import (
    GIGABIT,
    NETWORK_LATENCY_S,
    ROCE_LATENCY_S,
    ROCE_LATENCY_SOURCE,
)
from dovetail.hardware.link import Link

SERVER = "Intel Gaudi 3 server (HLB-325): 24 ports a chip, three to each of seven neighbours, three out of the box"
NUM_PORTS_OUT = 3
SOURCES = (
    ("box.bandwidth", f"{SERVER}; 200 GbE each"),
    ("box.latency", "estimate: an RDMA hop without a switch, 4.0 us as NCCL's tuning model has for a network hop"),
    ("fabric.bandwidth", f"{SERVER}; 200 GbE each"),
    ("fabric.latency", ROCE_LATENCY_SOURCE),
    ("num_devices", "estimate: three tiers of 64-port switches; any whole number of servers of 8"),
)


def gaudi3_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "gaudi3-nodes",
        "gaudi3",
        num_devices,
        box_latency_s=NETWORK_LATENCY_S,
        network=Link(bandwidth_bytes_per_s=NUM_PORTS_OUT * 200 * GIGABIT, latency_s=ROCE_LATENCY_S),
        num_most=three_tier_ports(64),
        sources=SOURCES,
    )


clusters.register("gaudi3-nodes")(
    ClusterEntry(
        build=gaudi3_nodes,
        default_devices=64,
        summary="Gaudi 3, 8 fully connected over 21 ports of 200 GbE, three ports (75 GB/s) out of the box",
    )
)
