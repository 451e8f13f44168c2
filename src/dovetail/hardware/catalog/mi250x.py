"""AMD Instinct MI250X: two graphics dies in one module, here one chip although software sees two devices."""

from __future__ import annotations

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import (
    BOARD_LINK_J_PER_BYTE,
    POWER_LIMITED_SOURCE,
    borrowed_gpu_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import GPU_TILING
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

DATASHEET = "AMD Instinct MI250X datasheet and CDNA 2 white paper (2021)"
TDP_W = 500.0
RATES = (("bf16", 383 * TERA), ("fp16", 383 * TERA), ("int8", 383 * TERA), ("fp32", 95.7 * TERA))
CLOCK_HZ = 1.7 * GIGA
CALIBRATION = borrowed_gpu_calibration(
    "NVIDIA's parts; tensor_frac and hbm_frac lowered after Frontier's published GEMM and stream rates (recalled)",
    CLOCK_HZ,
    tensor_frac=0.65,
    hbm_frac=0.82,
)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=383 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="6 nm",
    link_j_per_byte=BOARD_LINK_J_PER_BYTE,
)
DIE = Die(
    node_m=6 * NANO,
    num_dies=2,
    register_bytes=512 * KIBI,
    num_schedulers=4,
    num_fp64_lanes=64,
    has_dot_products=True,
    spare_core_frac=2 / 112,
    num_hbm_stacks=8,
    hbm_generation="HBM2e",
    num_link_lanes=8 * 16,
)
SOURCES = (
    ("year", DATASHEET),
    ("clock_hz", f"{DATASHEET}: peak engine clock"),
    ("tensor", f"{DATASHEET}; units are compute units of both dies; rows x cols is only their 512 MACs a clock"),
    ("tensor.tiling", "estimate: as the NVIDIA parts; the tile most large products choose"),
    ("vector", f"{DATASHEET}: 47.9 TFLOP/s fp32 without packed instructions"),
    ("core_buffer_bytes", f"{DATASHEET}: local data share of one compute unit"),
    ("sram.capacity_bytes", f"{DATASHEET}: L2, 8 MB a die"),
    (
        "sram.bandwidth_bytes_per_s",
        "estimate: 4096 bytes a clock and die (CDNA 2 white paper, recalled) at 1.7 GHz, halved",
    ),
    ("hbm.capacity_bytes", f"{DATASHEET}: 128 GB, 64 GiB a die as the driver reports"),
    ("hbm.bandwidth_bytes_per_s", f"{DATASHEET}: 3276.8 GB/s"),
    ("hbm_visible_frac", "PyTorch on ROCm, out of memory on one die of an MI250X: total capacity of 63.98 GiB"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", DATASHEET),
    ("interconnect_bytes_per_s", f"{DATASHEET}: 8 Infinity Fabric links, 800 GB/s both ways"),
    ("calibration", "estimate: the H200's measured shares, lowered after published Frontier rates (recalled)"),
    ("energy", f"{POWER_LIMITED_SOURCE}; link 3.6 pJ/bit, between DeepFlow's on-package and inter-node figures"),
    ("die", f"{DATASHEET}: 110 of 112 compute units a die, 512 KB of vector registers each, 8 stacks, 16 lanes a link"),
)
FACTS = (
    ("die area", "724 mm2 each of two", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("transistors", "58.2 billion", DATASHEET),
    ("peak power", "560 W", f"{DATASHEET}, recalled"),
    ("fp32 peak, packed", "95.7 TFLOP/s", DATASHEET),
)


@chips.register("mi250x")
@device_names()  # drivers show each of its two dies
def mi250x() -> Chip:
    """The module of Frontier and LUMI, both dies together."""
    return Chip(
        name="mi250x",
        vendor="AMD",
        year=2021,
        process="TSMC 6 nm",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=220, num_rows=16, num_cols=32, tiling=GPU_TILING, rates=RATES),
        vector=VectorUnits(num_units=220, num_lanes=64, peak_flop_per_s=47.9 * TERA),
        core_buffer_bytes=64 * KIBI,
        sram=Memory(capacity_bytes=16 * MEBI, bandwidth_bytes_per_s=7.0 * TERA),
        hbm=Memory(capacity_bytes=128 * GIBI, bandwidth_bytes_per_s=3.2768 * TERA),
        hbm_visible_frac=63.98 / 64,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=400 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
