"""Google TPU v2."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    EPOCH,
    ISCA_2021,
    JAX_TPU_INFO,
    MXU_TILING,
    NORRIE,
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
from dovetail.units import BITS_PER_BYTE, GIBI, GIGA, KIBI, MEBI, NANO, TERA

CLOCK_HZ = 0.7 * GIGA
TDP_W = 280.0
HBM_BYTES_PER_S = 0.7 * TERA
RATES = (("bf16", 46 * TERA),)
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
    ("clock_hz", f"{NORRIE}: 700 MHz"),
    ("tensor", f"{JAX_TPU_INFO}: 46 TFLOP/s, one 128x128 MXU a core, two cores"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM of one core"),
    ("sram.capacity_bytes", VMEM_AS_SRAM_SOURCE),
    ("sram.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm.capacity_bytes", f"{JAX_TPU_INFO}: 16 GB, in HBM stacks that are sized in GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{NORRIE}: 700 GB/s"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: 530 MiB of each core's 8 GiB (ColabFold, issue 62: 7.48G of hbm)"),
    ("tdp_w", f"{EPOCH}; also {ISCA_2021}"),
    ("interconnect_bytes_per_s", f"{NORRIE}: four links of 496 Gb/s"),
    ("energy", f"{COMPONENT_SOURCE}; idle {IDLE_SOURCE}"),
    ("die", f"{NORRIE}: 16 nm; estimate: 4 stacks, 20 lanes of 25 Gb/s a link; VMEM is the only large SRAM"),
    ("die.register_bytes", "estimate: 32 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (
    ("die area", "at most 625 mm2", f"{ISCA_2021}; {NORRIE}"),
    ("bf16 peak, other source", "45 TFLOP/s", EPOCH),
    ("HBM bandwidth, other sources", "600 and 716 GB/s", f"{EPOCH}; {JAX_TPU_INFO}"),
)


@chips.register("tpu-v2")
def tpu_v2() -> Chip:
    """The first TPU that trains: two cores of one MXU."""
    return Chip(
        name="tpu-v2",
        vendor="Google",
        year=2017,
        process="16 nm",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=2, num_rows=128, num_cols=128, tiling=MXU_TILING, rates=RATES),
        vector=vector_units(2, 2, CLOCK_HZ),
        core_buffer_bytes=16 * MEBI,
        sram=Memory(capacity_bytes=32 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=16 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=2 * 530 * MEBI / (16 * GIBI),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=4 * 496 * GIGA / BITS_PER_BYTE,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="16 nm", idle_w=idle_estimate_w(TDP_W)),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
