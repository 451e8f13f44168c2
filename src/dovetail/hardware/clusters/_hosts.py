"""Hosts of the catalogue's nodes: the port to them, their memory, and where each figure is from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.host import Host
from dovetail.hardware.link import Link
from dovetail.units import GIGA, MICRO, TERA

PCIE4_BYTES_PER_S, PCIE5_BYTES_PER_S = 31.5 * GIGA, 63.0 * GIGA  # PCIe specification: x16, one way, after encoding
COPY_LATENCY_S = 20 * MICRO  # measured on an H200: a pinned copy of 1 MiB takes 40 us, 19 us of them at 55 GB/s
COPY_LATENCY_SOURCE = "measured on an H200 over PCIe Gen5: 20 us for a pinned copy to start and be seen to end"
PAIRED = "two GPUs behind each of four PCIe switches, one x16 port to a processor"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHost:
    """A full node's host: `num_on_port` of its devices share each port; `sources` are of port, memory, bandwidth."""

    num_devices: int
    num_on_port: int
    port_bytes_per_s: float
    memory_bytes: float
    memory_bytes_per_s: float
    sources: tuple[str, str, str]


DGX_A100_HOST = NodeHost(
    num_devices=8,
    num_on_port=2,
    port_bytes_per_s=PCIE4_BYTES_PER_S,
    memory_bytes=2 * TERA,
    memory_bytes_per_s=409.6 * GIGA,
    sources=(
        f"DGX A100 user guide, system topology (recalled): PCIe Gen4, {PAIRED}",
        "DGX A100 640GB datasheet: 2 TB",
        "AMD EPYC 7742, two of them: eight channels of DDR4-3200 each, 204.8 GB/s",
    ),
)


def with_host(cluster: Cluster, node: NodeHost) -> Cluster:
    """`cluster` in such nodes; devices of one that is filled in part share what is there."""
    num_used = min(cluster.num_devices, node.num_devices)
    port = Link(bandwidth_bytes_per_s=node.port_bytes_per_s / min(num_used, node.num_on_port), latency_s=COPY_LATENCY_S)
    host = Host(
        num_devices=num_used,
        link=port,
        memory_bytes=node.memory_bytes,
        memory_bytes_per_s=node.memory_bytes_per_s,
    )
    figures = ("host.link", "host.memory", "host.memory_bandwidth")
    sources = (*zip(figures, node.sources, strict=True), ("host.latency", COPY_LATENCY_SOURCE))
    return replace(cluster, host=host, sources=(*cluster.sources, *sources))
