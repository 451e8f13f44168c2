"""MI300X platforms of eight, fully connected, on 400 Gb/s Ethernet or InfiniBand."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._hosts import PCIE5_BYTES_PER_S, NodeHost, with_host
from dovetail.hardware.clusters._meshed_boxes import meshed_boxes
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.units import GIGA, TEBI

DATASHEET = "AMD Instinct MI300X platform datasheet (2023)"
HOST = NodeHost(
    num_devices=8,
    num_on_port=1,
    port_bytes_per_s=PCIE5_BYTES_PER_S,
    memory_bytes=1.5 * TEBI,
    memory_bytes_per_s=921.6 * GIGA,
    sources=(
        f"{DATASHEET}: PCIe Gen5 x16 a device",
        "MLPerf Inference v4.1, AMD's 8xMI300X_2xEPYC-9374F system: 1.5 TiB, 24 modules of 64 GB",
        "AMD EPYC 9374F, two of them: twelve channels of DDR5-4800 each, 460.8 GB/s",
    ),
)


def mi300x_nodes(num_devices: int) -> Cluster:
    cluster = meshed_boxes(
        "mi300x-nodes",
        "mi300x",
        num_devices,
        box_source=f"{DATASHEET}: seven Infinity Fabric links of 128 GB/s both ways a device, to all seven others",
        port_bytes_per_s=400 * GIGABIT,
        port_source="estimate: one 400 Gb/s port a device, as in the public cloud instances",
        library="rccl-mi300x",
    )
    return with_host(cluster, HOST)


clusters.register("mi300x-nodes")(
    ClusterEntry(
        build=mi300x_nodes,
        default_devices=64,
        summary="MI300X, 8 fully connected (448 GB/s in all), 400 Gb/s per device between platforms",
    )
)
