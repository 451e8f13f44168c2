"""Gaudi 3 servers of eight with Ethernet inside and out."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._meshed_boxes import AS_RDMA, meshed_boxes
from dovetail.hardware.clusters._nodes import GIGABIT

SERVER = "Intel Gaudi 3 server (HLB-325): 24 ports a chip, three to each of seven neighbours, three out of the box"
NUM_PORTS_OUT = 3


def gaudi3_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "gaudi3-nodes",
        "gaudi3",
        num_devices,
        box_source=f"{SERVER}; 200 GbE each",
        port_bytes_per_s=NUM_PORTS_OUT * 200 * GIGABIT,
        port_source=f"{SERVER}; 200 GbE each",
        latencies=AS_RDMA,
    )


clusters.register("gaudi3-nodes")(
    ClusterEntry(
        build=gaudi3_nodes,
        default_devices=64,
        summary="Gaudi 3, 8 fully connected over 21 ports of 200 GbE, three ports (75 GB/s) out of the box",
    )
)
