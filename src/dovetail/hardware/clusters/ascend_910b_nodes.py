"""Atlas 800T A2 servers of eight Ascend 910B, fully connected, on 200 Gb/s RoCE."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._meshed_boxes import meshed_boxes
from dovetail.hardware.clusters._nodes import GIGABIT


def ascend_910b_nodes(num_devices: int) -> Cluster:
    return meshed_boxes(
        "ascend-910b-nodes",
        "ascend-910b",
        num_devices,
        box_source="estimate: third-party, as the Atlas 800T A2 is resold: HCCS, 392 GB/s both ways to seven others",
        port_bytes_per_s=200 * GIGABIT,
        port_source="Atlas 800T A2, Huawei (2023): eight 200 Gb/s RoCE ports",
    )


clusters.register("ascend-910b-nodes")(
    ClusterEntry(
        build=ascend_910b_nodes,
        default_devices=64,
        summary="Ascend 910B, 8 fully connected (196 GB/s in all), 200 Gb/s per device between servers",
    )
)
