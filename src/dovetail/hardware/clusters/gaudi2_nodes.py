"""Gaudi 2 servers of eight with Ethernet inside and out."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._meshed_boxes import AS_RDMA, meshed_boxes
from dovetail.hardware.clusters._nodes import GIGABIT

SERVER = "Intel Gaudi 2 server (HLS-Gaudi2): 24 ports a chip, three to each of seven neighbours, three out of the box"
NUM_PORTS_OUT = 3


def gaudi2_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "gaudi2-nodes",
        "gaudi2",
        num_devices,
        box_source=f"{SERVER}; 100 GbE each",
        port_bytes_per_s=NUM_PORTS_OUT * 100 * GIGABIT,
        port_source=f"{SERVER}; 100 GbE each",
        latencies=AS_RDMA,
    )


clusters.register("gaudi2-nodes")(
    ClusterEntry(
        build=gaudi2_nodes,
        default_devices=64,
        summary="Gaudi 2, 8 fully connected over 21 ports of 100 GbE, three ports (37.5 GB/s) out of the box",
    )
)
