"""Google TPU v5p."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    JAX_TPU_INFO,
    MXU_TILING,
    TPU_COMMON_SOURCES,
    VMEM_AS_SRAM_SOURCE,
    VMEM_BANDWIDTH_SOURCE,
    VMEM_HBM_RATIO,
    XLA_RESERVE_SOURCE,
    XLA_VISIBLE_SOURCE,
    vector_units,
)
from dovetail.hardware.catalog._measured import COMPONENT_SOURCE, IDLE_SOURCE, component_energy, idle_estimate_w
from dovetail.hardware.chip import Chip, TensorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.endpoints.ici import ICI
from dovetail.hardware.families.tpu import TPU_CALIBRATION
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

CLOUD_PAGE = "Google Cloud TPU v5p documentation"
CLOCK_HZ = 1.75 * GIGA
TDP_W = 300.0
HBM_BYTES_PER_S = 2.765 * TERA
RATES = (("bf16", 459 * TERA), ("fp8", 459 * TERA), ("int8", 918 * TERA))
DIE = Die(
    node_m=5 * NANO,
    register_bytes=256 * KIBI,
    buffered_units="none",
    num_hbm_stacks=6,
    hbm_generation="HBM2e",
    num_link_lanes=6 * 8,
)
SOURCES = (
    ("year", CLOUD_PAGE),
    ("clock_hz", "estimate: the clock that gives the bf16 peak: 459e12 / (8 * 128 * 128 * 2)"),
    ("tensor", f"{CLOUD_PAGE}: 459 TFLOP/s, two cores of four MXUs; {JAX_TPU_INFO}: int8"),
    ("tensor.rates.fp8", "Google Cloud comparison table of v5p, v6e and TPU7x: as bf16"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM of one core, 64 MiB"),
    ("sram.capacity_bytes", VMEM_AS_SRAM_SOURCE),
    ("sram.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm.capacity_bytes", f"{JAX_TPU_INFO}: 103e9 bytes, 96 GiB; the {CLOUD_PAGE} says 95 GB, what XLA leaves"),
    ("hbm.bandwidth_bytes_per_s", f"{CLOUD_PAGE}: 2765 GB/s"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: 0.26 GiB of 96 (XLA's out-of-memory message: 95.74G of hbm)"),
    ("tdp_w", "estimate: TPU v4's 192 W x (459 / 275) bf16 peak x 0.8 for the node is 256 W; rounded up for 2.3x HBM"),
    ("interconnect_bytes_per_s", f"{CLOUD_PAGE}: 4800 Gb/s over six links; 1200 GB/s both ways"),
    ("energy", f"{COMPONENT_SOURCE}; estimate: 5 nm class; idle {IDLE_SOURCE}"),
    ("die", "estimate: 5 nm class, 6 stacks of 460 GB/s, 8 lanes of 100 Gb/s a link; VMEM is the only large SRAM"),
    ("die.register_bytes", "estimate: 64 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (("HBM bandwidth, other source", "2460 GB/s", JAX_TPU_INFO),)


@chips.register("tpu-v5p")
def tpu_v5p() -> Chip:
    """The large v5: two cores that compile as one."""
    return Chip(
        name="tpu-v5p",
        vendor="Google",
        year=2023,
        process="5 nm class, not published",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=8, num_rows=128, num_cols=128, tiling=MXU_TILING, rates=RATES),
        vector=vector_units(2, 4, CLOCK_HZ),
        core_buffer_bytes=64 * MEBI,
        sram=Memory(capacity_bytes=128 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=96 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=0.26 / 96,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=600 * GIGA,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="5 nm", idle_w=idle_estimate_w(TDP_W)),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
