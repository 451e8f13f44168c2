"""PHAZE's TPU v4: the chip that its search must beat and whose area is its limit, with the 256 lanes it published.

TPU v4 has 2,048 lanes; `tpuv4-like` has them. This one is for comparing with the paper.
"""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._measured import COMPONENT_SOURCE, component_energy
from dovetail.hardware.catalog._templates import (
    ON_PAPER_SOURCE,
    TEMPLATE_CALIBRATION,
    TEMPLATE_CALIBRATION_SOURCE,
    template_tensor,
    template_vector,
)
from dovetail.hardware.chip import Chip
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

PHAZE = "PHAZE, released code (MIT, commit fed7cde)"
CLOCK_HZ = 1.05 * GIGA
DIE = Die(
    node_m=7 * NANO,
    register_bytes=12 * 128,
    buffered_units="tensor",
    num_hbm_stacks=4,
    hbm_generation="HBM2",
    num_link_lanes=1,
)
SOURCES = (
    ("year", "PHAZE's publication"),
    ("clock_hz", f"{PHAZE}: 1.05 GHz"),
    ("tensor", f"{PHAZE}: 8 tensor cores of 128x128, 16-bit words; rate derived from them and the clock"),
    ("vector", f"{PHAZE}: 2 vector cores of 128 lanes (TPU v4: of 1,024); rate derived from them and the clock"),
    ("core_buffer_bytes", f"{PHAZE}: w * d / 64 KiB for a tensor core of w by d"),
    ("sram.capacity_bytes", f"{PHAZE}: 128 MiB global buffer"),
    ("sram.bandwidth_bytes_per_s", f"{PHAZE}: 4096 bytes a clock from the global buffer"),
    ("hbm.capacity_bytes", f"{PHAZE}: the smallest of its 32, 64 and 80 GiB, which is TPU v4's"),
    ("hbm.bandwidth_bytes_per_s", "TPU v4: 1228 GB/s; the released code's mapper assumes less (see facts)"),
    ("hbm_visible_frac", ON_PAPER_SOURCE),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", "estimate: what its parts draw with everything busy (cost/tdp.py); PHAZE has no power constraint"),
    ("interconnect_bytes_per_s", f"{PHAZE}: one flat link of 4 GiB/s"),
    ("calibration", TEMPLATE_CALIBRATION_SOURCE),
    ("energy", f"{COMPONENT_SOURCE}; idle estimate: TPU v4's measured minimum"),
    ("die", f"{PHAZE}: 12 bytes of registers a lane; estimate: 7 nm and 4 stacks, as TPU v4; one lane for its link"),
)
FACTS = (
    ("area", "278.83 mm2 in its 22 nm model, without network, PHY or control", PHAZE),
    ("HBM bandwidth in the mapper", "128 words of 2 bytes a clock each way, 268.8 GB/s", PHAZE),
    ("energy in the mapper", "2.2 pJ per multiply-accumulate", PHAZE),
)


@chips.register("phaze-tpuv4")
def phaze_tpuv4() -> Chip:
    """TPU v4 as PHAZE has it: 8 tensor cores of 128x128, 2 vector cores of 128 lanes, 128 MiB."""
    return Chip(
        name="phaze-tpuv4",
        vendor="template",
        year=2024,
        process="7 nm class (area modelled at 22 nm)",
        clock_hz=CLOCK_HZ,
        tensor=template_tensor(8, 128, 128, CLOCK_HZ, ("bf16", "fp16")),
        vector=template_vector(2, 128, CLOCK_HZ),
        core_buffer_bytes=128 * 128 / 64 * KIBI,
        sram=Memory(capacity_bytes=128 * MEBI, bandwidth_bytes_per_s=4096 * CLOCK_HZ),
        hbm=Memory(capacity_bytes=32 * GIBI, bandwidth_bytes_per_s=1.228 * TERA),
        tdp_w=239.0,
        interconnect_bytes_per_s=4 * GIBI,
        calibration=TEMPLATE_CALIBRATION,
        energy=component_energy(node="7 nm", idle_w=90.0, shared_sram_bytes=128 * MEBI),
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
