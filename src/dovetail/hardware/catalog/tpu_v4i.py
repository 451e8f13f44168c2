"""Google TPU v4i, the inference sibling of the v4."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    EPOCH,
    ISCA_2021,
    JAX_TPU_INFO,
    MXU_TILING,
    TPU_COMMON_SOURCES,
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

ACCELFORGE = "AccelForge, tpu_v4i architecture file"
CLOCK_HZ = 1.05 * GIGA
HBM_BYTES_PER_S = 0.614 * TERA
TDP_W = 175.0
RATES = (("bf16", 138 * TERA),)
DIE = Die(
    node_m=7 * NANO,
    register_bytes=128 * KIBI,
    num_hbm_stacks=2,
    hbm_generation="HBM2",
    num_link_lanes=2 * 8,
)
SOURCES = (
    ("year", EPOCH),
    ("clock_hz", f"{ACCELFORGE}: 1.05 GHz"),
    ("tensor", f"{EPOCH}: 138 TFLOP/s; {JAX_TPU_INFO}: four 128x128 MXUs in one core"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM, 16 MiB"),
    ("sram.capacity_bytes", f"{JAX_TPU_INFO}: CMEM, 128 MiB"),
    ("sram.bandwidth_bytes_per_s", f"{ACCELFORGE}: CMEM reads at 2048 GB/s (writes at 1024 GB/s)"),
    ("vector_memory.capacity_bytes", f"{JAX_TPU_INFO}: VMEM, 16 MiB a core"),
    ("vector_memory.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm.capacity_bytes", f"{JAX_TPU_INFO}: 8.59e9 bytes, 8 GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{JAX_TPU_INFO}: 614 GB/s"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: estimate: 0.25 GiB, the v5e's; nothing is published"),
    ("tdp_w", EPOCH),
    ("interconnect_bytes_per_s", f"estimate: two links ({ISCA_2021}) of the 50 GB/s of a TPU v4 link"),
    ("energy", f"{COMPONENT_SOURCE}; idle {IDLE_SOURCE}"),
    ("die", f"{ISCA_2021}: 7 nm, two links; estimate: 2 stacks of 307 GB/s, 8 lanes of 50 Gb/s a link"),
    ("die.register_bytes", "estimate: 32 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (
    ("die area", "below 400 mm2", f"{ISCA_2021}; listed as 400 in {EPOCH}"),
    ("transistors", "16 billion", EPOCH),
    ("CMEM area", "112 mm2", ACCELFORGE),
    ("clock, other source", "1055 MHz", EPOCH),
)


@chips.register("tpu-v4i")
def tpu_v4i() -> Chip:
    """One v4 core with its 128 MiB of CMEM and one HBM stack's worth of memory."""
    return Chip(
        name="tpu-v4i",
        vendor="Google",
        year=2020,
        process="7 nm",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=4, num_rows=128, num_cols=128, tiling=MXU_TILING, rates=RATES),
        vector=vector_units(1, 2, CLOCK_HZ),
        core_buffer_bytes=16 * MEBI,
        sram=Memory(capacity_bytes=128 * MEBI, bandwidth_bytes_per_s=2.048 * TERA),
        vector_memory=Memory(capacity_bytes=16 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=8 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=0.25 / 8,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=100 * GIGA,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="7 nm", idle_w=idle_estimate_w(TDP_W), shared_sram_bytes=128 * MEBI),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
