"""DGX A100 nodes on an HDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._hosts import DGX_A100_HOST, with_host
from dovetail.hardware.clusters._nodes import GIGABIT

GUIDE = "NVIDIA DGX A100 datasheet and DGX SuperPOD reference architecture (2020)"
NUM_MOST = three_tier_ports(40)
SOURCES = (
    ("nvlink.bandwidth", f"{GUIDE}: 600 GB/s both ways a GPU through NVSwitch"),
    ("infiniband.bandwidth", f"{GUIDE}: eight HDR ports of 200 Gb/s for eight GPUs"),
    ("num_devices", "three tiers of 40-port HDR switches reach 16000 ports, one a GPU; any whole number of nodes of 8"),
)


def dgx_a100(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "dgx-a100",
        "a100-80gb-sxm",
        num_devices,
        port_bytes_per_s=200 * GIGABIT,
        num_most=NUM_MOST,
        sources=SOURCES,
        library="nccl-a100",
    )
    return with_host(cluster, DGX_A100_HOST)


clusters.register("dgx-a100")(
    ClusterEntry(
        build=dgx_a100,
        default_devices=1024,
        summary="A100 80 GB, 8 a node on NVSwitch (300 GB/s), 200 Gb/s HDR a GPU, non-blocking",
    )
)
