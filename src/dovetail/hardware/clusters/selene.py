"""Selene: the DGX A100 SuperPOD of the Megatron-LM scaling study."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster
from dovetail.hardware.clusters._hosts import DGX_A100_HOST, with_host
from dovetail.hardware.clusters._nodes import GIGABIT

PAPER = "Narayanan et al., SC 2021 (Megatron-LM on Selene)"
NUM_MOST = 560 * 8
SOURCES = (
    ("nvlink.bandwidth", f"{PAPER}: NVLink and NVSwitch, 600 GB/s both ways a GPU"),
    ("infiniband.bandwidth", f"{PAPER}: eight 200 Gb/s HDR adapters a node for the application"),
    ("num_devices", "560 DGX A100 nodes (Top500 entry of Selene, recalled); the study used up to 3072 GPUs"),
)


def selene(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "selene",
        "a100-80gb-sxm",
        num_devices,
        port_bytes_per_s=200 * GIGABIT,
        num_most=NUM_MOST,
        sources=SOURCES,
        library="nccl-a100",
    )
    return with_host(cluster, DGX_A100_HOST)


clusters.register("selene")(
    ClusterEntry(
        build=selene,
        default_devices=3072,
        summary="A100 80 GB DGX SuperPOD, three-level HDR fat tree, up to 4480 GPUs",
    )
)
