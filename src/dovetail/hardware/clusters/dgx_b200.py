"""DGX B200 nodes on an NDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._hosts import PAIRED, PCIE5_BYTES_PER_S, NodeHost, with_host
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.units import GIGA, TERA

GUIDE = "NVIDIA DGX B200 datasheet and DGX SuperPOD reference architecture (2024)"
NUM_MOST = three_tier_ports(64)
SOURCES = (
    ("nvlink.bandwidth", f"{GUIDE}: NVLink5, 1.8 TB/s both ways a GPU through NVSwitch"),
    ("infiniband.bandwidth", f"{GUIDE}: eight ConnectX-7 ports of 400 Gb/s for eight GPUs"),
    ("num_devices", "three tiers of 64-port NDR switches reach 65536 ports, one a GPU; any whole number of nodes of 8"),
)
HOST = NodeHost(
    num_devices=8,
    num_on_port=2,
    port_bytes_per_s=PCIE5_BYTES_PER_S,
    memory_bytes=2 * TERA,
    memory_bytes_per_s=716.8 * GIGA,
    sources=(
        f"estimate: PCIe Gen5, pairs of GPUs with the same two adapters nearest (nvidia-smi topo); {PAIRED}",
        "NVIDIA DGX B200 datasheet: 2 TB, up to 4 TB",
        "Intel Xeon Platinum 8570, two of them: eight channels of DDR5-5600 each, 358.4 GB/s",
    ),
)


def dgx_b200(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "dgx-b200",
        "b200",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        num_most=NUM_MOST,
        sources=SOURCES,
        library="nccl-b200",
    )
    return with_host(cluster, HOST)


clusters.register("dgx-b200")(
    ClusterEntry(
        build=dgx_b200,
        default_devices=1024,
        summary="B200, 8 a node on NVSwitch (900 GB/s), 400 Gb/s NDR a GPU, non-blocking",
    )
)
