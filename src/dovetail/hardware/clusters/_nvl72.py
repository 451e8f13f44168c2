"""NVL72 racks: 72 GPUs on one NVLink switch, four a compute tray, two beside each Grace."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._dgx import dgx_cluster, three_tier_ports
from dovetail.hardware.clusters._hosts import NodeHost, with_host
from dovetail.units import GIGA

NUM_RACK, NUM_TRAY = 72, 4  # GPUs of a rack, and of a compute tray
NUM_MOST = three_tier_ports(64) // NUM_RACK * NUM_RACK


def nvl72_cluster(
    chip_name: str, num_devices: int, *, port_bytes_per_s: float, port_source: str, size_source: str, year: int
) -> Cluster:
    """Racks of `chip_name`, its name in capitals being that of the system, on a non-blocking fat tree."""
    system = chip_name.upper()
    guide = f"NVIDIA DGX {system} datasheet and DGX SuperPOD reference architecture ({year})"
    sources = (
        ("nvlink.bandwidth", f"{guide}: NVLink5, 1.8 TB/s both ways a GPU, one domain of 72"),
        ("infiniband.bandwidth", f"{guide}: {port_source}"),
        ("num_devices", f"{size_source}; racks of 72, or as many trays of 4 in each"),
    )
    host = NodeHost(
        num_devices=2,
        num_on_port=2,
        port_bytes_per_s=450 * GIGA,
        memory_bytes=480 * GIGA,
        memory_bytes_per_s=512 * GIGA,
        sources=(
            f"NVIDIA {system} NVL72 datasheet: NVLink-C2C, 900 GB/s both ways between a Grace and its two GPUs",
            f"NVIDIA DGX {system} datasheet: 17 TB of LPDDR5X for 36 Grace, 480 GB each",
            "NVIDIA Grace datasheet: up to 512 GB/s of LPDDR5X with 480 GB",
        ),
    )
    cluster = dgx_cluster(
        f"{chip_name}-nvl72",
        chip_name,
        num_devices,
        port_bytes_per_s=port_bytes_per_s,
        num_most=NUM_MOST,
        sources=sources,
        library="nccl-b200",
        num_domain=rack_devices(num_devices),
    )
    return with_host(cluster, host)


def rack_devices(num_devices: int) -> int:
    """GPUs of each rack that a job uses: whole trays, the same number in every rack, more than half of each.

    Jobs of powers of two take 64 of 72, as public runs do: 128 devices are two racks of 64.
    """
    if num_devices <= NUM_RACK:
        return NUM_RACK
    for num_rack in range(NUM_RACK, NUM_RACK // 2, -NUM_TRAY):
        if num_devices % num_rack == 0:
            return num_rack
    return NUM_RACK
