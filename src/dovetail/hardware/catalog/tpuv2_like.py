"""The TPUv2-like template: the hand-tuned baseline that WHAM compares with."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._measured import COMPONENT_SOURCE, IDLE_SOURCE, component_energy, idle_estimate_w
from dovetail.hardware.catalog._templates import (
    ON_PAPER_SOURCE,
    TEMPLATE_CALIBRATION,
    TEMPLATE_CALIBRATION_SOURCE,
    WHAM,
    template_tensor,
    template_vector,
)
from dovetail.hardware.chip import Chip
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import BITS_PER_BYTE, GIBI, GIGA, MEBI, NANO, TERA

CLOCK_HZ = 0.7 * GIGA
TDP_W = 280.0
DIE = Die(
    node_m=16 * NANO,
    register_bytes=12 * 128,
    buffered_units="none",
    num_hbm_stacks=4,
    hbm_generation="HBM2",
    num_link_lanes=4 * 20,
)
SOURCES = (
    ("year", "WHAM's publication"),
    ("clock_hz", WHAM),
    ("tensor", "two 128x128 tensor cores, as TPU v2; rate derived from them and the clock; 16-bit words"),
    (
        "vector",
        "estimate: one vector core of 128 lanes beside each tensor core, the template's smallest match of TPU v2",
    ),
    ("core_buffer_bytes", "estimate: TPU v2's 16 MiB of VMEM a core"),
    ("sram.capacity_bytes", "estimate: TPU v2's 32 MiB on chip"),
    ("sram.bandwidth_bytes_per_s", "WHAM's released constants: 4096 bytes a clock from the global buffer"),
    ("hbm.capacity_bytes", "TPU v2, 16 GiB"),
    ("hbm.bandwidth_bytes_per_s", WHAM),
    ("hbm_visible_frac", ON_PAPER_SOURCE),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", WHAM),
    ("interconnect_bytes_per_s", "estimate: TPU v2's four links of 496 Gb/s (Norrie et al. 2021, recalled)"),
    ("calibration", TEMPLATE_CALIBRATION_SOURCE),
    ("energy", f"{COMPONENT_SOURCE}; idle {IDLE_SOURCE}"),
    ("die", "estimate: 16 nm, 4 stacks and 20 lanes a link, as TPU v2; 12 bytes of registers a lane, as PHAZE"),
)
FACTS = (
    ("area limit", "606.68 mm2", WHAM),
    ("clock and HBM in the released code", "734 MHz and 751.6 GB/s: 700 in powers of two", "WHAM's released constants"),
)


@chips.register("tpuv2-like")
def tpuv2_like() -> Chip:
    """TPU v2 in the template's words: two 128x128 tensor cores and two vector cores of 128 lanes."""
    return Chip(
        name="tpuv2-like",
        vendor="template",
        year=2024,
        process="16 nm class",
        clock_hz=CLOCK_HZ,
        tensor=template_tensor(2, 128, 128, CLOCK_HZ, ("bf16", "fp16")),
        vector=template_vector(2, 128, CLOCK_HZ),
        core_buffer_bytes=16 * MEBI,
        sram=Memory(capacity_bytes=32 * MEBI, bandwidth_bytes_per_s=4096 * CLOCK_HZ),
        hbm=Memory(capacity_bytes=16 * GIBI, bandwidth_bytes_per_s=0.7 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=4 * 496 * GIGA / BITS_PER_BYTE,
        calibration=TEMPLATE_CALIBRATION,
        energy=component_energy(node="16 nm", idle_w=idle_estimate_w(TDP_W)),
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
