"""NVIDIA H100 PCIe 80 GB: 114 SMs, HBM2e and half the power of the SXM part."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog import h100_sxm as h100
from dovetail.hardware.catalog._measured import (
    GEMM_POWER_RATIO,
    GH100_CALIBRATION_SOURCE,
    GH100_ENERGY,
    POWER_LIMITED_SOURCE,
    gpu_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import H100_DATASHEET, HBM_BINARY, PAIRED_TILING, SM_LAYOUT, TILE_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, TERA

TDP_W = 350.0
RATES = (
    ("bf16", 756 * TERA),
    ("fp16", 756 * TERA),
    ("fp8", 1513 * TERA),
    ("int8", 1513 * TERA),
    ("tf32", 378 * TERA),
    ("fp32", 51.2 * TERA),
)
CLOCK_HZ = 1.62 * GIGA
CALIBRATION = gpu_calibration(CLOCK_HZ)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=756 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="4 nm",
    link_j_per_byte=GH100_ENERGY.link_j_per_byte,
    gemm_power_ratio=GEMM_POWER_RATIO,
)
DIE = replace(h100.DIE, spare_core_frac=30 / 144, hbm_generation="HBM2e")
SOURCES = (
    ("year", H100_DATASHEET),
    ("clock_hz", f"the boost clock of the tensor peaks in the {H100_DATASHEET}: 756e12 / (114 * 2048 * 2)"),
    ("tensor", f"{H100_DATASHEET}, dense; {SM_LAYOUT} (4 tensor cores of 512); fp32 runs on the vector lanes"),
    ("tensor.tiling", TILE_SOURCE),
    ("vector", H100_DATASHEET),
    ("vector.peak_flop_per_s", f"not at clock_hz: {H100_DATASHEET} states it at the 1.755 GHz maximum clock"),
    ("core_buffer_bytes", f"{H100_DATASHEET}: L1 and shared memory of one SM"),
    ("sram.capacity_bytes", f"{H100_DATASHEET}: L2"),
    (
        "sram.bandwidth_bytes_per_s",
        "estimate: L2 reads of 5.5 to 6 TB/s in Chips and Cheese, H100 (July 2023), recalled",
    ),
    ("hbm.capacity_bytes", f"{H100_DATASHEET}; {HBM_BINARY}"),
    ("hbm.bandwidth_bytes_per_s", f"{H100_DATASHEET}: HBM2e"),
    ("hbm_visible_frac", "torch.cuda.get_device_properties of an H100 PCIe: total_memory 81008 MiB"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", H100_DATASHEET),
    ("interconnect_bytes_per_s", f"{H100_DATASHEET}: NVLink bridge to one neighbour, 600 GB/s both ways"),
    ("calibration", GH100_CALIBRATION_SOURCE),
    ("energy", POWER_LIMITED_SOURCE),
    ("die", f"{H100_DATASHEET}: the SXM part's die with 114 of its 144 SMs in use; NVLink has 36 lanes (recalled)"),
)
FACTS = (
    ("die area", "814 mm2", H100_DATASHEET),
    ("transistors", "80 billion", H100_DATASHEET),
    ("boost clock", "1755 MHz", "Chips and Cheese, H100 PCIe (July 2023)"),
    ("PCIe", "Gen5 x16, 128 GB/s both ways", H100_DATASHEET),
)


@chips.register("h100-pcie")
@device_names("NVIDIA H100 PCIe")
def h100_pcie() -> Chip:
    """The add-in card, joined in pairs by a bridge and otherwise over PCIe."""
    return Chip(
        name="h100-pcie",
        vendor="NVIDIA",
        year=2022,
        process="TSMC 4N",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=114, num_rows=64, num_cols=32, tiling=PAIRED_TILING, rates=RATES),
        vector=VectorUnits(num_units=114, num_lanes=128, peak_flop_per_s=51.2 * TERA),
        core_buffer_bytes=256 * KIBI,
        sram=Memory(capacity_bytes=50 * MEBI, bandwidth_bytes_per_s=5.5 * TERA),
        hbm=Memory(capacity_bytes=80 * GIBI, bandwidth_bytes_per_s=2.0 * TERA),
        hbm_visible_frac=79.11 / 80,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=300 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
