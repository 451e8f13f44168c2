"""NVIDIA B200 SXM (HGX and DGX B200): two dies seen as one GPU."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import (
    GH100_ENERGY,
    POWER_LIMITED_SOURCE,
    gpu_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import B200_DATASHEET, HBM_BINARY, PAIRED_TILING, SM_LAYOUT, TILE_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

TDP_W = 1000.0
RATES = (
    ("bf16", 2250 * TERA),
    ("fp16", 2250 * TERA),
    ("fp8", 4500 * TERA),
    ("fp4", 9000 * TERA),
    ("int8", 4500 * TERA),
    ("tf32", 1125 * TERA),
    ("fp32", 75 * TERA),
)
CLOCK_HZ = 1.856 * GIGA
CALIBRATION = gpu_calibration(CLOCK_HZ, "not fitted: the constants that A100, H100 and H200 share")
ENERGY = replace(
    power_limited_energy(
        tdp_w=TDP_W,
        peak_flop_per_s=2250 * TERA,
        tensor_frac=CALIBRATION.tensor_frac,
        node="4 nm",
        link_j_per_byte=GH100_ENERGY.link_j_per_byte,
    ),
    tensor_j_per_flop=GH100_ENERGY.tensor_j_per_flop,  # the same process family, 4N and 4NP
)
DIE = Die(
    node_m=4 * NANO,
    num_dies=2,
    register_bytes=(256 + 256) * KIBI,
    num_schedulers=4,
    num_fp64_lanes=64,
    has_dot_products=True,
    spare_core_frac=12 / 160,
    num_hbm_stacks=8,
    hbm_generation="HBM3e",
    num_link_lanes=18 * 2,
)
SOURCES = (
    ("year", B200_DATASHEET),
    ("clock_hz", f"estimate: the clock that gives the bf16 peak of the {B200_DATASHEET}: 2250e12 / (148 * 4096 * 2)"),
    ("tensor", f"{B200_DATASHEET}, dense; {SM_LAYOUT}; fp32 runs on the vector lanes"),
    ("tensor.num_units", "148 SMs enabled, 74 a die (Chips and Cheese, B200, 2025)"),
    ("tensor.num_rows", "estimate: 4 tensor cores of 1024 multiply-accumulates, as the scaling book infers"),
    ("tensor.num_cols", "estimate: 4 tensor cores of 1024 multiply-accumulates, as the scaling book infers"),
    ("tensor.tiling", TILE_SOURCE),
    ("vector", "estimate: 128 fp32 lanes an SM, as on the H100; 148 SMs (Chips and Cheese, B200, 2025)"),
    (
        "vector.peak_flop_per_s",
        f"not at clock_hz: {B200_DATASHEET}, 600 TFLOP/s for eight, at the 1.965 GHz maximum clock",
    ),
    ("core_buffer_bytes", "256 KB L1 and shared memory of one SM (Chips and Cheese, B200, 2025)"),
    ("sram.capacity_bytes", "L2 126 MB (scaling book, GPU chapter)"),
    ("sram.bandwidth_bytes_per_s", "estimate: two dies, each with the H100's measured L2 bandwidth"),
    ("hbm.capacity_bytes", f"{B200_DATASHEET}: 1.44 TB for eight; {HBM_BINARY} (183359 MiB); launch material said 192"),
    ("hbm.bandwidth_bytes_per_s", f"{B200_DATASHEET}: 64 TB/s for eight"),
    ("hbm_visible_frac", "CUDA total global memory of a B200: 178.35 GiB (github.com/pytorch/ao, pull request 4002)"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", B200_DATASHEET),
    ("interconnect_bytes_per_s", f"{B200_DATASHEET}: NVLink5, 1.8 TB/s both ways"),
    ("calibration", "estimate: the constants that A100, H100 and H200 share"),
    ("energy", f"{POWER_LIMITED_SOURCE}; estimate: a tensor FLOP as on the H200, of the same process family"),
    ("die", f"{B200_DATASHEET}: two dies, 8 stacks; registers and tensor memory of an SM (scaling book, GPU chapter)"),
    ("die.spare_core_frac", "80 SMs a die, 74 in use (Chips and Cheese, B200, 2025, recalled)"),
    ("die.spare_sram_frac", "estimate: all of the L2 is in use"),
    ("die.num_fp64_lanes", f"{B200_DATASHEET}: 37 TFLOP/s fp64 is 64 lanes an SM"),
    ("die.num_link_lanes", "NVLink5: 2 lanes of 200 Gb/s a link (recalled)"),
)
FACTS = (
    ("transistors", "208 billion on two dies", B200_DATASHEET),
    ("HBM bandwidth, other source", "7.7 TB/s", "aiconfigurator system files"),
    ("HBM capacity, other source", "192 GB", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("tensor memory", "256 KiB per SM", "scaling book, GPU chapter"),
)


@chips.register("b200")
@device_names("NVIDIA B200")
def b200() -> Chip:
    """The 1000 W part of eight-GPU boards."""
    return Chip(
        name="b200",
        vendor="NVIDIA",
        year=2024,
        process="TSMC 4NP",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=148, num_rows=64, num_cols=64, tiling=PAIRED_TILING, rates=RATES),
        vector=VectorUnits(num_units=148, num_lanes=128, peak_flop_per_s=75 * TERA),
        core_buffer_bytes=256 * KIBI,
        sram=Memory(capacity_bytes=126 * MEBI, bandwidth_bytes_per_s=11 * TERA),
        hbm=Memory(capacity_bytes=180 * GIBI, bandwidth_bytes_per_s=8.0 * TERA),
        hbm_visible_frac=178.35 / 180,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=900 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
