"""Hosts of TPU pods: how many chips share one, the PCIe link of each chip, and the memory of its virtual machine."""

from __future__ import annotations

from dovetail.hardware.clusters._hosts import NodeHost
from dovetail.units import GIBI, GIGA

SCALING_BOOK_PCIE = "How to Scale Your Model (scaling book), TPU chapter, recalled"
PCIE_BYTES_PER_S = 16 * GIGA  # a chip, one way: of TPUs to v5
PCIE_V6E_BYTES_PER_S = 32 * GIGA
DDR4_BYTES_PER_S, DDR5_BYTES_PER_S = 409.6 * GIGA, 614.4 * GIGA  # two sockets of eight channels: 3200 and 4800 MT/s
DDR4_SOURCE = "estimate: two sockets with eight channels of DDR4-3200 each; Google does not publish it"


def _host(num_devices: int, memory_bytes: float, memory_source: str) -> NodeHost:
    return NodeHost(
        num_devices=num_devices,
        num_on_port=1,
        port_bytes_per_s=PCIE_BYTES_PER_S,
        memory_bytes=memory_bytes,
        memory_bytes_per_s=DDR4_BYTES_PER_S,
        sources=(f"{SCALING_BOOK_PCIE}: about 16 GB/s of PCIe per chip", memory_source, DDR4_SOURCE),
    )


V3_HOST = _host(4, 340 * GIGA, "Cloud TPU documentation, recalled: 340 GB for the four chips of a v3 host")
V4_HOST = _host(4, 407 * GIGA, "Cloud TPU documentation, recalled: 407 GB for the four chips of a v4 host")
V5E_HOST = _host(4, 192 * GIGA, "Cloud TPU documentation, recalled: 192 GB of ct5lp-hightpu-4t, four chips")
V5P_HOST = _host(4, 448 * GIGA, "Cloud TPU documentation, recalled: 448 GB of ct5p-hightpu-4t, four chips")
V6E_HOST = NodeHost(
    num_devices=8,
    num_on_port=1,
    port_bytes_per_s=PCIE_V6E_BYTES_PER_S,
    memory_bytes=1536 * GIBI,
    memory_bytes_per_s=DDR5_BYTES_PER_S,
    sources=(
        f"{SCALING_BOOK_PCIE}: 32 GB/s of PCIe per chip from v6e on",
        "Cloud TPU v6e documentation: 1536 GiB of DRAM per host, 8 chips per host",
        "estimate: two sockets with eight channels of DDR5-4800 each; Google does not publish it",
    ),
)
V7_HOST = NodeHost(
    num_devices=4,
    num_on_port=1,
    port_bytes_per_s=PCIE_V6E_BYTES_PER_S,
    memory_bytes=960 * GIGA,
    memory_bytes_per_s=DDR5_BYTES_PER_S,
    sources=(
        f"estimate: as v6e, {SCALING_BOOK_PCIE}: 32 GB/s of PCIe per chip",
        "Cloud TPU documentation, recalled: 960 GB of tpu7x-standard-4t, four chips",
        "estimate: two sockets with eight channels of DDR5-4800 each; Google does not publish it",
    ),
)
