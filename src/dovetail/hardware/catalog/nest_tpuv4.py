"""NEST's TPU v4: PHAZE's chip with the memory and links that NEST gives it."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog import phaze_tpuv4 as plain
from dovetail.hardware.chip import Chip
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, TERA

NEST = "NEST, released code (commit e8f1e6c)"
OWN_SOURCES = {
    "hbm.capacity_bytes": f"{NEST}: 64 GB of HBM",
    "interconnect_bytes_per_s": f"{NEST}: 900 GB/s from a device to the switch of its node",
    "die": "PHAZE: 12 bytes of registers a lane; estimate: 7 nm and 4 stacks, as TPU v4; lanes of 100 Gb/s",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in plain.SOURCES)


@chips.register("nest-tpuv4")
def nest_tpuv4() -> Chip:
    """PHAZE's TPU v4 as its authors' later placement study has it: 64 GiB, and 900 GB/s inside a node."""
    return replace(
        plain.phaze_tpuv4(),
        name="nest-tpuv4",
        hbm=Memory(capacity_bytes=64 * GIBI, bandwidth_bytes_per_s=1.228 * TERA),
        interconnect_bytes_per_s=900 * GIGA,
        tdp_w=298.0,
        die=replace(plain.DIE, num_link_lanes=72),
        sources=SOURCES,
    )
