"""Google TPU v6e (Trillium)."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    EPOCH,
    JAX_TPU_INFO,
    SCALING_BOOK,
    TPU_COMMON_SOURCES,
    VMEM_AS_SRAM_SOURCE,
    VMEM_BANDWIDTH_SOURCE,
    VMEM_HBM_RATIO,
    XLA_RESERVE_SOURCE,
    XLA_VISIBLE_SOURCE,
    mxu_tiling,
    vector_units,
)
from dovetail.hardware.catalog._measured import COMPONENT_SOURCE, IDLE_SOURCE, component_energy, idle_estimate_w
from dovetail.hardware.chip import Chip, TensorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.endpoints.ici import ICI
from dovetail.hardware.families.tpu import TPU_CALIBRATION
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

CLOUD_PAGE = "Google Cloud TPU v6e documentation"
CLOCK_HZ = 1.75 * GIGA
TDP_W = 390.0
HBM_BYTES_PER_S = 1.64 * TERA
RATES = (("bf16", 918 * TERA), ("fp8", 918 * TERA), ("int8", 1836 * TERA))
ARRAYS = (
    "estimate: JAX counts two MXUs, which would need 3.5 GHz for the peak; two rows of bf16 a clock at the v5p's clock "
    "explain it, modelled as four arrays of 256x256"
)
DIE = Die(
    node_m=5 * NANO,
    register_bytes=256 * KIBI,
    buffered_units="none",
    num_hbm_stacks=2,
    hbm_generation="HBM3",
    num_link_lanes=4 * 8,
)
SOURCES = (
    ("year", EPOCH),
    ("clock_hz", "estimate: the v5p's clock, with which four 256x256 arrays give the bf16 peak"),
    ("tensor", f"{CLOUD_PAGE}: 918 TFLOP/s bf16, 1836 TOP/s int8; {SCALING_BOOK}: 256x256 arrays"),
    ("tensor.num_units", ARRAYS),
    ("tensor.rates.fp8", f"{JAX_TPU_INFO}: as bf16"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM, 128 MiB"),
    ("sram.capacity_bytes", VMEM_AS_SRAM_SOURCE),
    ("sram.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm.capacity_bytes", f"{CLOUD_PAGE}: 32 GB; {JAX_TPU_INFO}: 34.4e9 bytes, so GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{CLOUD_PAGE}: 1640 GB/s"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: 0.75 GiB of 32 (vllm, pull request 16211: 33,550,237,696 bytes)"),
    ("tdp_w", "estimate: the v5e's 140 W x 4.7 in peak over 1.67 in efficiency (Google, Trillium launch, 2024)"),
    ("interconnect_bytes_per_s", f"{CLOUD_PAGE}: 800 GB/s both ways, four links"),
    ("energy", f"{COMPONENT_SOURCE}; estimate: 5 nm class; idle {IDLE_SOURCE}"),
    ("die", "estimate: 5 nm class, 2 stacks of 820 GB/s, 8 lanes of 100 Gb/s a link; VMEM is the only large SRAM"),
    ("die.register_bytes", "estimate: 64 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (("MXUs, other source", "2 per core", JAX_TPU_INFO),)


@chips.register("tpu-v6e")
def tpu_v6e() -> Chip:
    """Trillium: the v5e's place in the line with 256x256 arrays."""
    return Chip(
        name="tpu-v6e",
        vendor="Google",
        year=2024,
        process="5 nm class, not published",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=4, num_rows=256, num_cols=256, tiling=mxu_tiling(256), rates=RATES),
        vector=vector_units(1, 4, CLOCK_HZ),
        core_buffer_bytes=128 * MEBI,
        sram=Memory(capacity_bytes=128 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=32 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=0.75 / 32,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=400 * GIGA,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="5 nm", idle_w=idle_estimate_w(TDP_W), num_macs_per_unit=256 * 256),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
