"""DGX B300 nodes on an XDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._hosts import PAIRED, PCIE5_BYTES_PER_S, NodeHost, with_host
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.units import GIGA, TERA

GUIDE = "NVIDIA DGX B300 datasheet (2025)"
NUM_MOST = three_tier_ports(64)
SOURCES = (
    ("nvlink.bandwidth", f"{GUIDE}: NVLink5, 1.8 TB/s both ways a GPU through NVSwitch"),
    ("infiniband.bandwidth", f"{GUIDE}: eight ConnectX-8 ports of 800 Gb/s for eight GPUs"),
    ("num_devices", "estimate: three tiers of 64-port switches, one port a GPU; any whole number of nodes of 8"),
)
HOST = NodeHost(
    num_devices=8,
    num_on_port=2,
    port_bytes_per_s=PCIE5_BYTES_PER_S,
    memory_bytes=2 * TERA,
    memory_bytes_per_s=819.2 * GIGA,
    sources=(
        f"estimate: PCIe Gen5, as in DGX B200 {PAIRED}",
        f"{GUIDE}: 2 TB, up to 4 TB",
        "Intel Xeon 6776P, two of them: eight channels of DDR5-6400 each, 409.6 GB/s (recalled)",
    ),
)


def dgx_b300(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "dgx-b300",
        "b300",
        num_devices,
        port_bytes_per_s=800 * GIGABIT,
        num_most=NUM_MOST,
        sources=SOURCES,
        library="nccl-b200",
    )
    return with_host(cluster, HOST)


clusters.register("dgx-b300")(
    ClusterEntry(
        build=dgx_b300,
        default_devices=1024,
        summary="B300, 8 a node on NVSwitch (900 GB/s), 800 Gb/s XDR a GPU, non-blocking",
    )
)
