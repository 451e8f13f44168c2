"""DGX H200 nodes on an NDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster
from dovetail.hardware.clusters._hosts import with_host
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters.dgx_h100 import NUM_MOST, hopper_host, ndr_sources


def dgx_h200(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "dgx-h200",
        "h200-sxm",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        num_most=NUM_MOST,
        sources=ndr_sources("NVIDIA DGX H200 datasheet and DGX SuperPOD reference architecture"),
        library="nccl-h100",
    )
    return with_host(cluster, hopper_host("MLPerf Inference v4.1, NVIDIA's H200-SXM-141GBx8 system: 2 TB"))


clusters.register("dgx-h200")(
    ClusterEntry(
        build=dgx_h200,
        default_devices=1024,
        summary="H200 SXM, 8 a node on NVSwitch (450 GB/s), 400 Gb/s NDR a GPU, non-blocking",
    )
)
