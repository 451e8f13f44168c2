"""Google TPU v4."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._google import (
    EPOCH,
    ISCA_2023,
    JAX_TPU_INFO,
    MXU_TILING,
    SCALING_BOOK,
    TPU_COMMON_SOURCES,
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
from dovetail.hardware.families.tpu import COMPILER_LOSS, COMPILER_LOSS_UNALIGNED, TPU_CALIBRATION, interval_label
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

XLA_PROFILES = "XLA profiles in SCALE-Sim-validation, commit 45818f1"
CLOUD_PAGE = "Google Cloud TPU v4 documentation"
CLOCK_HZ = 1.05 * GIGA
HBM_BYTES_PER_S = 1.228 * TERA
RATES = (("bf16", 275 * TERA), ("int8", 275 * TERA), ("fp16", 275 * TERA))
DIE = Die(
    node_m=7 * NANO,
    register_bytes=128 * KIBI,
    num_hbm_stacks=4,
    hbm_generation="HBM2",
    num_link_lanes=6 * 8,
)
SOURCES = (
    ("year", EPOCH),
    ("clock_hz", f"{ISCA_2023}: 1050 MHz"),
    ("tensor", f"{CLOUD_PAGE}: 275 TFLOP/s in bf16 or int8, two cores of four 128x128 MXUs"),
    ("core_buffer_bytes", f"{JAX_TPU_INFO}: VMEM of one core"),
    ("sram.capacity_bytes", f"{JAX_TPU_INFO}: CMEM, 128 MiB shared by both cores"),
    ("sram.bandwidth_bytes_per_s", f"{XLA_PROFILES}: CMEM reads at 2151 GB/s for each core"),
    ("tensor.rates.fp16", f"{XLA_PROFILES}: the arrays' bf16, operands converted by the vector unit (inferred)"),
    ("vector_memory.capacity_bytes", f"{JAX_TPU_INFO}: VMEM, 16 MiB a core"),
    ("vector_memory.bandwidth_bytes_per_s", VMEM_BANDWIDTH_SOURCE),
    ("hbm.capacity_bytes", f"{CLOUD_PAGE}: 32 GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{JAX_TPU_INFO}: 1228 GB/s; the {CLOUD_PAGE} rounds to 1200"),
    ("hbm_visible_frac", XLA_VISIBLE_SOURCE),
    ("hbm_reserve_frac", f"{XLA_RESERVE_SOURCE}: 1.25 GiB of 32 (EasyDeL, issue 166: 30.75G of hbm)"),
    ("tdp_w", f"{CLOUD_PAGE}: measured maximum of 90 / 170 / 192 W (min / mean / max)"),
    ("interconnect_bytes_per_s", f"{SCALING_BOOK}: six links of 45 GB/s one way"),
    ("energy", f"{COMPONENT_SOURCE}; idle is the measured minimum of the {CLOUD_PAGE}"),
    ("die", f"{ISCA_2023}: 7 nm, six links; estimate: 4 stacks of 307 GB/s, 8 lanes of 50 Gb/s a link"),
    ("die.register_bytes", "estimate: 32 vector registers of 8 x 128 words of 4 bytes a core"),
    *TPU_COMMON_SOURCES,
)
FACTS = (
    ("XLA's time over the mapper's bound, fp16", interval_label(COMPILER_LOSS), f"{XLA_PROFILES}; multiples of 16"),
    (
        "the same, unaligned extents",
        interval_label(COMPILER_LOSS_UNALIGNED),
        f"{XLA_PROFILES}; 100 profiles",
    ),
    ("die area", "below 600 mm2", ISCA_2023),
    ("TDP, other source (a mean)", "170 W", EPOCH),
    ("interconnect, other source", "six links of 50 GB/s", ISCA_2023),
)


@chips.register("tpu-v4")
def tpu_v4() -> Chip:
    """The chip of PaLM: two cores that compile as one."""
    return Chip(
        name="tpu-v4",
        vendor="Google",
        year=2020,
        process="7 nm",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(
            num_units=8, num_rows=128, num_cols=128, tiling=MXU_TILING, rates=RATES, converted=("fp16",)
        ),
        vector=vector_units(2, 2, CLOCK_HZ),
        core_buffer_bytes=16 * MEBI,
        sram=Memory(capacity_bytes=128 * MEBI, bandwidth_bytes_per_s=2 * 2.151 * TERA),
        vector_memory=Memory(capacity_bytes=2 * 16 * MEBI, bandwidth_bytes_per_s=VMEM_HBM_RATIO * HBM_BYTES_PER_S),
        hbm=Memory(capacity_bytes=32 * GIBI, bandwidth_bytes_per_s=HBM_BYTES_PER_S),
        hbm_reserve_frac=1.25 / 32,
        tdp_w=192.0,
        interconnect_bytes_per_s=270 * GIGA,
        calibration=TPU_CALIBRATION,
        energy=component_energy(node="7 nm", idle_w=90.0, shared_sram_bytes=128 * MEBI),
        die=DIE,
        endpoint=ICI,
        sources=SOURCES,
        facts=FACTS,
    )
