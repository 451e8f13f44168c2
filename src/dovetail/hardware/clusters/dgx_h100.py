"""DGX H100 nodes on an NDR InfiniBand fat tree."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._hosts import PAIRED, PCIE5_BYTES_PER_S, NodeHost, with_host
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.units import GIGA, TERA

NUM_MOST = three_tier_ports(64)


def ndr_sources(guide: str) -> tuple[tuple[str, str], ...]:
    """Of NVLink 4 and NDR ports, as the guide of a DGX with eight such GPUs has them."""
    return (
        ("nvlink.bandwidth", f"{guide}: NVLink4, 900 GB/s both ways a GPU through NVSwitch"),
        ("infiniband.bandwidth", f"{guide}: eight NDR ports of 400 Gb/s for eight GPUs"),
        (
            "num_devices",
            "three tiers of 64-port NDR switches reach 65536 ports, one a GPU; any whole number of nodes of 8",
        ),
    )


def hopper_host(memory_source: str) -> NodeHost:
    """Two Xeon 8480C for eight GPUs, with 2 TB as `memory_source` has it."""
    return NodeHost(
        num_devices=8,
        num_on_port=2,
        port_bytes_per_s=PCIE5_BYTES_PER_S,
        memory_bytes=2 * TERA,
        memory_bytes_per_s=614.4 * GIGA,
        sources=(
            f"estimate: PCIe Gen5, and as in DGX A100 and B200 {PAIRED}",
            memory_source,
            "Intel Xeon Platinum 8480C, two of them: eight channels of DDR5-4800 each, 307.2 GB/s",
        ),
    )


def dgx_h100(num_devices: int) -> Cluster:
    cluster = dgx_cluster(
        "dgx-h100",
        "h100-sxm",
        num_devices,
        port_bytes_per_s=400 * GIGABIT,
        num_most=NUM_MOST,
        sources=ndr_sources("NVIDIA DGX H100 datasheet and DGX SuperPOD reference architecture"),
        library="nccl-h100",
    )
    return with_host(cluster, hopper_host("NVIDIA DGX H100 datasheet: 2 TB"))


clusters.register("dgx-h100")(
    ClusterEntry(
        build=dgx_h100,
        default_devices=1024,
        summary="H100 SXM, 8 a node on NVSwitch (450 GB/s), 400 Gb/s NDR a GPU, non-blocking",
    )
)
