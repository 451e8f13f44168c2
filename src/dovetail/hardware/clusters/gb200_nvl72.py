"""GB200 NVL72 racks: 72 GPUs on one NVLink switch, racks on an NDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster
from dovetail.hardware.clusters._hosts import NodeHost, with_host
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._nvl72 import NUM_MOST, rack_devices
from dovetail.units import GIGA

GUIDE = "NVIDIA DGX GB200 datasheet and DGX SuperPOD reference architecture (2024)"
SOURCES = (
    ("nvlink.bandwidth", f"{GUIDE}: NVLink5, 1.8 TB/s both ways a GPU, one domain of 72"),
    ("infiniband.bandwidth", f"{GUIDE}: 72 ConnectX-7 ports of 400 Gb/s a rack; 800 Gb/s came with GB300"),
    (
        "num_devices",
        "three tiers of 64-port NDR switches reach 65536 ports, one a GPU; racks of 72, or as many trays of 4 in each",
    ),
)
HOST = NodeHost(
    num_devices=2,
    num_on_port=2,
    port_bytes_per_s=450 * GIGA,
    memory_bytes=480 * GIGA,
    memory_bytes_per_s=512 * GIGA,
    sources=(
        "NVIDIA GB200 NVL72 datasheet: NVLink-C2C, 900 GB/s both ways between a Grace and its two GPUs",
        "NVIDIA DGX GB200 datasheet: 17 TB of LPDDR5X for 36 Grace, 480 GB each",
        "NVIDIA Grace datasheet: up to 512 GB/s of LPDDR5X with 480 GB",
    ),
)


def gb200_nvl72(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "gb200-nvl72",
        "gb200",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        num_most=NUM_MOST,
        sources=SOURCES,
        library="nccl-b200",
        num_domain=rack_devices(num_devices),
    )
    return with_host(cluster, HOST)


clusters.register("gb200-nvl72")(
    ClusterEntry(
        build=gb200_nvl72,
        default_devices=576,
        summary="GB200, 72 in one NVLink domain (900 GB/s), 400 Gb/s NDR a GPU between racks",
    )
)
