"""Eight GPUs behind NVSwitch in a node, nodes on a fat tree with one network port per GPU."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._nodes import (
    NETWORK_LATENCY_S,
    NETWORK_LATENCY_SOURCE,
    NVLINK_LATENCY_S,
    NVLINK_LATENCY_SOURCE,
    filled,
)
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension

NODE_DEVICES = 8


def three_tier_ports(num_switch_ports: int) -> int:
    """End ports of a full three-tier fat tree of equal switches: k^3 / 4."""
    return num_switch_ports**3 // 4


def dgx_cluster(
    family: str,
    chip_name: str,
    num_devices: int,
    *,
    port_bytes_per_s: float,
    num_most: int,
    sources: tuple[tuple[str, str], ...],
    library: str,
    num_domain: int = NODE_DEVICES,
) -> Cluster:
    """`num_domain` devices on one NVSwitch at the chip's full link rate, then a non-blocking fat tree."""
    chip = chips[chip_name]()
    inside = Link(bandwidth_bytes_per_s=chip.interconnect_bytes_per_s, latency_s=NVLINK_LATENCY_S)
    outside = Link(bandwidth_bytes_per_s=port_bytes_per_s, latency_s=NETWORK_LATENCY_S)
    dimensions = (
        Dimension(name="nvlink", kind="switch", num_devices=num_domain, link=inside, library=library),
        Dimension(
            name="infiniband",
            kind="fat-tree",
            num_devices=num_most // num_domain,
            link=outside,
            library=library,
            is_network=True,
        ),
    )
    latencies = (("nvlink.latency", NVLINK_LATENCY_SOURCE), ("infiniband.latency", NETWORK_LATENCY_SOURCE))
    return Cluster(
        name=family, chip=chip, topology=filled(family, num_devices, dimensions), sources=(*latencies, *sources)
    )
