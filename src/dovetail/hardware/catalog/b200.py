"""NVIDIA B200 SXM (HGX and DGX B200): two dies seen as one GPU."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._measured import (
    GH100_ENERGY,
    POWER_LIMITED_SOURCE,
    borrowed_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import B200_DATASHEET, GPU_TILE, HBM_BINARY, SM_LAYOUT, TILE_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, TERA

TDP_W = 1000.0
RATES = (
    ("bf16", 2250 * TERA),
    ("fp16", 2250 * TERA),
    ("fp8", 4500 * TERA),
    ("int8", 4500 * TERA),
    ("tf32", 1125 * TERA),
    ("fp32", 75 * TERA),
)
CALIBRATION = borrowed_calibration("the H200's, the nearest measured relative")
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=2250 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="4 nm",
    link_j_per_byte=GH100_ENERGY.link_j_per_byte,
)
SOURCES = (
    ("year", B200_DATASHEET),
    ("clock_hz", f"estimate: the clock that gives the bf16 peak of the {B200_DATASHEET}: 2250e12 / (148 * 4096 * 2)"),
    ("tensor", f"{B200_DATASHEET}, dense; {SM_LAYOUT}; fp32 runs on the vector lanes"),
    ("tensor.num_units", "148 SMs enabled, 74 a die (Chips and Cheese, B200, 2025)"),
    ("tensor.num_rows", "estimate: 4 tensor cores of 1024 multiply-accumulates, as the scaling book infers"),
    ("tensor.num_cols", "estimate: 4 tensor cores of 1024 multiply-accumulates, as the scaling book infers"),
    ("tensor.tile", TILE_SOURCE),
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
    ("tdp_w", B200_DATASHEET),
    ("interconnect_bytes_per_s", f"{B200_DATASHEET}: NVLink5, 1.8 TB/s both ways"),
    ("calibration", "estimate: the H200's measured shares"),
    ("energy", POWER_LIMITED_SOURCE),
)
FACTS = (
    ("transistors", "208 billion on two dies", B200_DATASHEET),
    ("HBM bandwidth, other source", "7.7 TB/s", "aiconfigurator system files"),
    ("HBM capacity, other source", "192 GB", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("tensor memory", "256 KiB per SM", "scaling book, GPU chapter"),
)


@chips.register("b200")
def b200() -> Chip:
    """The 1000 W part of eight-GPU boards."""
    return Chip(
        name="b200",
        vendor="NVIDIA",
        year=2024,
        process="TSMC 4NP",
        clock_hz=1.856 * GIGA,
        tensor=TensorUnits(num_units=148, num_rows=64, num_cols=64, tile=GPU_TILE, rates=RATES),
        vector=VectorUnits(num_units=148, num_lanes=128, peak_flop_per_s=75 * TERA),
        core_buffer_bytes=256 * KIBI,
        sram=Memory(capacity_bytes=126 * MEBI, bandwidth_bytes_per_s=11 * TERA),
        hbm=Memory(capacity_bytes=180 * GIBI, bandwidth_bytes_per_s=8.0 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=900 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        sources=SOURCES,
        facts=FACTS,
    )
