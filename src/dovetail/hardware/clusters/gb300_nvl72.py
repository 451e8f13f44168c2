"""GB300 NVL72 racks: 72 GPUs on one NVLink switch, racks on an XDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster
from dovetail.hardware.clusters._hosts import NodeHost, with_host
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._nvl72 import NUM_MOST, rack_devices
from dovetail.units import GIGA

GUIDE = "NVIDIA DGX GB300 datasheet and DGX SuperPOD reference architecture (2025)"
SOURCES = (
    ("nvlink.bandwidth", f"{GUIDE}: NVLink5, 1.8 TB/s both ways a GPU, one domain of 72"),
    ("infiniband.bandwidth", f"{GUIDE}: 72 ConnectX-8 ports of 800 Gb/s a rack"),
    (
        "num_devices",
        "estimate: three tiers of 64-port switches, one port a GPU; racks of 72, or as many trays of 4 in each",
    ),
)
HOST = NodeHost(
    num_devices=2,
    num_on_port=2,
    port_bytes_per_s=450 * GIGA,
    memory_bytes=480 * GIGA,
    memory_bytes_per_s=512 * GIGA,
    sources=(
        "NVIDIA GB300 NVL72 datasheet: NVLink-C2C, 900 GB/s both ways between a Grace and its two GPUs",
        "NVIDIA DGX GB300 datasheet: 17 TB of LPDDR5X for 36 Grace, 480 GB each",
        "NVIDIA Grace datasheet: up to 512 GB/s of LPDDR5X with 480 GB",
    ),
)


def gb300_nvl72(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "gb300-nvl72",
        "gb300",
        num_devices,
        port_bytes_per_s=800 * GIGABIT,
        num_most=NUM_MOST,
        sources=SOURCES,
        library="nccl-b200",
        num_domain=rack_devices(num_devices),
    )
    return with_host(cluster, HOST)


clusters.register("gb300-nvl72")(
    ClusterEntry(
        build=gb300_nvl72,
        default_devices=576,
        summary="GB300, 72 in one NVLink domain (900 GB/s), 800 Gb/s XDR a GPU between racks",
    )
)
