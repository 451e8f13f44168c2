"""Eight L40S cards in a server: PCIe Gen4 between them, EFA between servers."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._hosts import PCIE4_BYTES_PER_S, NodeHost, with_host
from dovetail.hardware.clusters._nodes import GIGABIT, PCIE_LATENCY_S, PCIE_LATENCY_SOURCE, filled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, MICRO, TERA

LIBRARY = "nccl-l40s"
NODE_DEVICES = 8
EFA_LATENCY_S = 15 * MICRO
SOURCES = (
    ("pcie.bandwidth", "NVIDIA L40S datasheet (2023): PCIe Gen4 x16, 64 GB/s both ways"),
    ("pcie.latency", PCIE_LATENCY_SOURCE),
    ("efa.bandwidth", "Amazon EC2 g6e.48xlarge: 400 Gb/s for eight cards"),
    ("efa.latency", "estimate: public EFA ping-pong figures of 15 to 20 us"),
    ("num_devices", "estimate: a placement group of 512 servers; any whole number of servers of 8"),
)
DIMENSIONS = (
    Dimension(
        name="pcie",
        kind="switch",
        num_devices=NODE_DEVICES,
        link=Link(bandwidth_bytes_per_s=32 * GIGA, latency_s=PCIE_LATENCY_S),
        library=LIBRARY,
    ),
    Dimension(
        name="efa",
        kind="fat-tree",
        num_devices=512,
        link=Link(bandwidth_bytes_per_s=50 * GIGABIT, latency_s=EFA_LATENCY_S),
        library=LIBRARY,
        is_network=True,
    ),
)
HOST = NodeHost(
    num_devices=NODE_DEVICES,
    num_on_port=1,
    port_bytes_per_s=PCIE4_BYTES_PER_S,
    memory_bytes=1.536 * TERA,
    memory_bytes_per_s=921.6 * GIGA,
    sources=(
        "NVIDIA L40S datasheet (2023): PCIe Gen4 x16; estimate: a port of its own for each card",
        "Amazon EC2 g6e.48xlarge: 1,536 GiB, taken as GB",
        "AMD EPYC 9004, two of them: twelve channels of DDR5-4800 each, 460.8 GB/s",
    ),
)


def l40s_nodes(num_devices: int) -> Cluster:
    topology = filled("l40s-nodes", num_devices, DIMENSIONS)
    cluster = Cluster(name="l40s-nodes", chip=chips["l40s"](), topology=topology, sources=SOURCES)
    return with_host(cluster, HOST)


clusters.register("l40s-nodes")(
    ClusterEntry(
        build=l40s_nodes,
        default_devices=8,
        summary="L40S, PCIe Gen4 in the server with measured collectives, 50 Gb/s per GPU between servers",
    )
)
