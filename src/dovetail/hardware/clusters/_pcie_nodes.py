"""Cards in a server without NVLink switches: PCIe between them, in bridged pairs or not, a network between servers."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._nodes import (
    NETWORK_LATENCY_S,
    NETWORK_LATENCY_SOURCE,
    NVLINK_LATENCY_S,
    NVLINK_LATENCY_SOURCE,
    PCIE_LATENCY_S,
    PCIE_LATENCY_SOURCE,
    filled,
)
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension

NODE_DEVICES = 8
MOST_SERVERS = 512
SIZE_SOURCE = "estimate: at most 512 servers; any whole number of servers of 8"


def pcie_cluster(
    family: str,
    chip_name: str,
    num_devices: int,
    *,
    pcie_bytes_per_s: float,
    network_bytes_per_s: float,
    pcie_source: str,
    network_source: str,
    bridge_source: str = "",
) -> Cluster:
    """`num_devices` in servers of eight; with a `bridge_source`, pairs are joined at the chip's own link rate."""
    chip = chips[chip_name]()
    pcie = Link(bandwidth_bytes_per_s=pcie_bytes_per_s, latency_s=PCIE_LATENCY_S)
    network = Link(bandwidth_bytes_per_s=network_bytes_per_s, latency_s=NETWORK_LATENCY_S)
    num_bridged = 2 if bridge_source else 1
    dimensions: tuple[Dimension, ...] = (
        Dimension(name="pcie", kind="switch", num_devices=NODE_DEVICES // num_bridged, link=pcie),
        Dimension(name="network", kind="fat-tree", num_devices=MOST_SERVERS, link=network, is_network=True),
    )
    sources: tuple[tuple[str, str], ...] = (
        ("pcie.bandwidth", pcie_source),
        ("pcie.latency", PCIE_LATENCY_SOURCE),
        ("network.bandwidth", network_source),
        ("network.latency", NETWORK_LATENCY_SOURCE),
        ("num_devices", SIZE_SOURCE),
    )
    if bridge_source:
        bridge = Link(bandwidth_bytes_per_s=chip.interconnect_bytes_per_s, latency_s=NVLINK_LATENCY_S)
        paired = Dimension(name="bridge", kind="fully-connected", num_devices=num_bridged, link=bridge)
        dimensions = (paired, *dimensions)
        sources = (("bridge.bandwidth", bridge_source), ("bridge.latency", NVLINK_LATENCY_SOURCE), *sources)
    topology = filled(family, num_devices, dimensions)
    return Cluster(name=family, chip=chip, topology=topology, sources=sources)
