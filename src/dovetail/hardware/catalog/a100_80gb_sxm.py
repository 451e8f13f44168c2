"""NVIDIA A100 SXM4 80 GB."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._measured import (
    GH100_ENERGY,
    POWER_LIMITED_SOURCE,
    borrowed_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import A100_DATASHEET, GPU_TILE, HBM_BINARY, SM_LAYOUT, TILE_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, TERA

TDP_W = 400.0
RATES = (
    ("bf16", 312 * TERA),
    ("fp16", 312 * TERA),
    ("int8", 624 * TERA),
    ("tf32", 156 * TERA),
    ("fp32", 19.5 * TERA),
)
CALIBRATION = borrowed_calibration(
    "the H200's; tensor_frac from published A100 GEMMs of 250 to 280 TFLOP/s (recalled)",
    tensor_frac=0.83,
)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=312 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="7 nm",
    link_j_per_byte=GH100_ENERGY.link_j_per_byte,
)
SOURCES = (
    ("year", A100_DATASHEET),
    ("clock_hz", f"{A100_DATASHEET}: boost clock, at which the peaks are stated"),
    ("tensor", f"{A100_DATASHEET}, dense; {SM_LAYOUT} (4 tensor cores of 256); fp32 runs on the vector lanes"),
    ("tensor.tile", TILE_SOURCE),
    ("vector", A100_DATASHEET),
    ("core_buffer_bytes", f"{A100_DATASHEET}: L1 and shared memory of one SM"),
    ("sram.capacity_bytes", f"{A100_DATASHEET}: L2"),
    ("sram.bandwidth_bytes_per_s", "estimate: 70 % of the white paper's 5120 bytes a clock at 1.41 GHz (7.2 TB/s)"),
    ("hbm.capacity_bytes", f"{A100_DATASHEET}; {HBM_BINARY}"),
    ("hbm.bandwidth_bytes_per_s", f"{A100_DATASHEET}: 2039 GB/s, 80 GB SXM part"),
    ("tdp_w", A100_DATASHEET),
    ("interconnect_bytes_per_s", f"{A100_DATASHEET}: NVLink3, 12 links, 600 GB/s both ways"),
    ("calibration", "estimate: the H200's measured shares; tensor_frac from published A100 GEMM rates (recalled)"),
    ("energy", POWER_LIMITED_SOURCE),
)
FACTS = (
    ("die area", "826 mm2", A100_DATASHEET),
    ("transistors", "54.2 billion", A100_DATASHEET),
    ("register file", "256 KiB per SM", A100_DATASHEET),
    (
        "die breakdown",
        "cores 435, L2 180, RF 41.4, L1 30, I/O 133 mm2",
        "DeepFlow configurations, from a die photograph",
    ),
)


@chips.register("a100-80gb-sxm")
def a100_80gb_sxm() -> Chip:
    """The part of Selene and of most large runs of 2021 and 2022."""
    return Chip(
        name="a100-80gb-sxm",
        vendor="NVIDIA",
        year=2020,
        process="TSMC 7 nm (N7)",
        clock_hz=1.41 * GIGA,
        tensor=TensorUnits(num_units=108, num_rows=32, num_cols=32, tile=GPU_TILE, rates=RATES),
        vector=VectorUnits(num_units=108, num_lanes=64, peak_flop_per_s=19.5 * TERA),
        core_buffer_bytes=192 * KIBI,
        sram=Memory(capacity_bytes=40 * MEBI, bandwidth_bytes_per_s=5.0 * TERA),
        hbm=Memory(capacity_bytes=80 * GIBI, bandwidth_bytes_per_s=2.039 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=300 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        sources=SOURCES,
        facts=FACTS,
    )
