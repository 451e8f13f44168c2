"""Google TPU v3."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    EPOCH,
    ISCA_2021,
    JAX_TPU_INFO,
    MXU_TILING,
    NORRIE,
    SCALING_BOOK,
    TPU_COMMON_SOURCES,
    VMEM_AS_SRAM_SOURCE,
    VMEM_BANDWIDTH_SOURCE,
    VMEM_HBM_RATIO,
    XLA_RESERVE_SOURCE,
    XLA_VISIBLE_SOURCE,
    vector_units,
)
from dovetail.hardware.catalog._measured import COMPONENT_SOURCE, component_energy
from dovetail.hardware.chip import Chip, TensorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.endpoints.ici import ICI
from dovetail.hardware.families.tpu import TPU_CALIBRATION
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

CLOUD_PAGE = "Google Cloud TPU v3 documentation"
CLOCK_HZ = 0.94 * GIGA
HBM_BYTES_PER_S = 0.9 * TERA
RATES = (("bf16", 123 * TERA),)
DIE = Die(
    node_m=16 * NANO,
    register_bytes=128 * KIBI,
    buffered_units="none",
    num_hbm_stacks=4,
    hbm_generation="HBM2",
    num_link_lanes=4 * 20,
)
SOURCES = (
    ("year", EPOCH),
    ("clock_hz", f"{NORRIE}: 940 MHz"),
    ("tensor", f"{CLOUD_PAGE}: 123 TFLOP/s, two cores of two 128x128 MXUs"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM of one core"),
    ("sram.capacity_bytes", VMEM_AS_SRAM_SOURCE),
    ("sram.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm", f"{CLOUD_PAGE}: 32 GiB, 900 GB/s"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: 530 MiB of a core's 16 GiB (LargeWorldModel/LWM, issue 60: 15.48G)"),
    ("tdp_w", f"{CLOUD_PAGE}: measured maximum of 123 / 220 / 262 W (min / mean / max)"),
    (
        "interconnect_bytes_per_s",
        f"{SCALING_BOOK}: four links of 100 GB/s one way; agrees with the pod's 6.4 TB/s bisection",
    ),
    ("energy", f"{COMPONENT_SOURCE}; idle is the measured minimum of the {CLOUD_PAGE}"),
    ("die", f"{NORRIE}: 16 nm; estimate: 4 stacks, 20 lanes a link as the v2; VMEM is the only large SRAM"),
    ("die.register_bytes", "estimate: 32 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (
    ("die area", "at most 700 mm2", f"{ISCA_2021}; {NORRIE}"),
    ("TDP, other source", "450 W", ISCA_2021),
    ("TDP, other source (a mean)", "220 W", EPOCH),
    ("bf16 peak, other source", "140 TFLOP/s", JAX_TPU_INFO),
    ("HBM bandwidth, other source", "825 GB/s", JAX_TPU_INFO),
    ("interconnect, other source", "four links of 656 Gb/s", NORRIE),
)


@chips.register("tpu-v3")
def tpu_v3() -> Chip:
    """The v2 with twice the MXUs, a faster clock and liquid cooling."""
    return Chip(
        name="tpu-v3",
        vendor="Google",
        year=2018,
        process="16 nm",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=4, num_rows=128, num_cols=128, tiling=MXU_TILING, rates=RATES),
        vector=vector_units(2, 2, CLOCK_HZ),
        core_buffer_bytes=16 * MEBI,
        sram=Memory(capacity_bytes=32 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=32 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=2 * 530 * MEBI / (32 * GIBI),
        tdp_w=262.0,
        interconnect_bytes_per_s=400 * GIGA,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="16 nm", idle_w=123.0),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
