"""Boxes of eight where every device has its own links to the seven others, boxes on an Ethernet or InfiniBand tree."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._dgx import three_tier_ports
from dovetail.hardware.clusters._nodes import (
    NCCL_TUNING,
    NETWORK_LATENCY_S,
    NETWORK_LATENCY_SOURCE,
    PCIE_LATENCY_S,
    ROCE_LATENCY_S,
    ROCE_LATENCY_SOURCE,
    filled,
)
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension

NUM_BOX = 8
NUM_SWITCH_PORTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Of a hop within a box and between boxes, each with its source."""

    box_s: float
    box_source: str
    fabric_s: float
    fabric_source: str


AS_PCIE = Latencies(
    box_s=PCIE_LATENCY_S,
    box_source=f"estimate: as a PCIe hop, 2.5 us, of {NCCL_TUNING}",
    fabric_s=NETWORK_LATENCY_S,
    fabric_source=NETWORK_LATENCY_SOURCE,
)
AS_RDMA = Latencies(
    box_s=NETWORK_LATENCY_S,
    box_source="estimate: an RDMA hop without a switch, 4.0 us as NCCL's tuning model has for a network hop",
    fabric_s=ROCE_LATENCY_S,
    fabric_source=ROCE_LATENCY_SOURCE,
)


def meshed_boxes(
    family: str,
    chip_name: str,
    num_devices: int,
    *,
    box_source: str,
    port_bytes_per_s: float,
    port_source: str,
    latencies: Latencies = AS_PCIE,
    library: str = "",
) -> Cluster:
    """`num_devices` in boxes of eight; the chip's scale-up links are shared evenly by its seven neighbours.

    In a box filled in part, the links to absent neighbours carry nothing. Between boxes each device has a port of
    `port_bytes_per_s` on three tiers of switches. `box_source` and `port_source` are of the two bandwidths.
    """
    chip = chips[chip_name]()
    num_neighbours = max(1, min(num_devices, NUM_BOX) - 1)
    used_bytes_per_s = chip.interconnect_bytes_per_s * num_neighbours / (NUM_BOX - 1)
    box = Dimension(
        name="box",
        kind="fully-connected",
        num_devices=NUM_BOX,
        link=Link(bandwidth_bytes_per_s=used_bytes_per_s, latency_s=latencies.box_s),
        library=library,
    )
    fabric = Dimension(
        name="fabric",
        kind="fat-tree",
        num_devices=three_tier_ports(NUM_SWITCH_PORTS) // NUM_BOX,
        link=Link(bandwidth_bytes_per_s=port_bytes_per_s, latency_s=latencies.fabric_s),
        library=library,
        is_network=True,
    )
    sources = (
        ("box.bandwidth", box_source),
        ("box.latency", latencies.box_source),
        ("fabric.bandwidth", port_source),
        ("fabric.latency", latencies.fabric_source),
        ("num_devices", f"estimate: three tiers of {NUM_SWITCH_PORTS}-port switches; any whole number of boxes of 8"),
    )
    return Cluster(name=family, chip=chip, topology=filled(family, num_devices, (box, fabric)), sources=sources)
