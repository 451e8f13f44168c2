"""Google TPU v5e."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    EPOCH,
    JAX_TPU_INFO,
    MXU_TILING,
    SCALING_BOOK,
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

CLOUD_PAGE = "Google Cloud TPU v5e documentation"
CLOCK_HZ = 1.5 * GIGA
TDP_W = 140.0
HBM_BYTES_PER_S = 0.819 * TERA
RATES = (("bf16", 197 * TERA), ("int8", 394 * TERA))
DIE = Die(
    node_m=5 * NANO,
    register_bytes=256 * KIBI,
    buffered_units="none",
    num_hbm_stacks=2,
    hbm_generation="HBM2e",
    num_link_lanes=4 * 8,
)
SOURCES = (
    ("year", EPOCH),
    ("clock_hz", f"{SCALING_BOOK}: 1.5 GHz"),
    ("tensor", f"{CLOUD_PAGE}: 197 TFLOP/s bf16, 393 TOP/s int8, one core of four MXUs"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM, 128 MiB"),
    ("sram.capacity_bytes", VMEM_AS_SRAM_SOURCE),
    ("sram.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm.capacity_bytes", f"{CLOUD_PAGE}: 16 GB; {JAX_TPU_INFO}: 17.2e9 bytes, so GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{CLOUD_PAGE}: 819 GB/s"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: 0.25 GiB of 16 (XLA's out-of-memory message: 15.75G of hbm)"),
    ("tdp_w", f"estimate: third-party figure in the {EPOCH}; Google publishes none"),
    ("interconnect_bytes_per_s", f"{CLOUD_PAGE}: 400 GB/s both ways, four links"),
    ("energy", f"{COMPONENT_SOURCE}; estimate: 5 nm class; idle {IDLE_SOURCE}"),
    ("die", "estimate: 5 nm class, 2 stacks of 410 GB/s, 8 lanes of 50 Gb/s a link; VMEM is the only large SRAM"),
    ("die.register_bytes", "estimate: 64 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (("die area", "325 mm2, third-party estimate", EPOCH),)


@chips.register("tpu-v5e")
def tpu_v5e() -> Chip:
    """The small v5: one core."""
    return Chip(
        name="tpu-v5e",
        vendor="Google",
        year=2023,
        process="5 nm class, not published",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=4, num_rows=128, num_cols=128, tiling=MXU_TILING, rates=RATES),
        vector=vector_units(1, 4, CLOCK_HZ),
        core_buffer_bytes=128 * MEBI,
        sram=Memory(capacity_bytes=128 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=16 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=0.25 / 16,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=200 * GIGA,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="5 nm", idle_w=idle_estimate_w(TDP_W)),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
