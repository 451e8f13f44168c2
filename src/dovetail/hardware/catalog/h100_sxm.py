"""NVIDIA H100 SXM5 80 GB."""

from __future__ import annotations

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import (
    GH100_CALIBRATION,
    GH100_CALIBRATION_SOURCE,
    GH100_ENERGY,
    GH100_ENERGY_SOURCE,
)
from dovetail.hardware.catalog._nvidia import H100_DATASHEET, HBM_BINARY, PAIRED_TILING, SM_LAYOUT, TILE_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

RATES = (
    ("bf16", 989.4 * TERA),
    ("fp16", 989.4 * TERA),
    ("fp8", 1978.9 * TERA),
    ("int8", 1978.9 * TERA),
    ("tf32", 494.7 * TERA),
    ("fp32", 66.9 * TERA),
)
DIE = Die(
    node_m=4 * NANO,
    register_bytes=256 * KIBI,
    num_schedulers=4,
    num_fp64_lanes=64,
    has_dot_products=True,
    spare_core_frac=12 / 144,
    spare_sram_frac=10 / 60,
    num_hbm_stacks=5,
    num_spare_hbm_phys=1,
    hbm_generation="HBM3",
    num_link_lanes=18 * 2,
)
SOURCES = (
    ("year", H100_DATASHEET),
    ("clock_hz", f"the boost clock of the tensor peaks in the {H100_DATASHEET}: 989.4e12 / (132 * 2048 * 2)"),
    ("tensor", f"{H100_DATASHEET}, dense; {SM_LAYOUT} (4 tensor cores of 512); fp32 runs on the vector lanes"),
    ("tensor.tiling", TILE_SOURCE),
    ("vector", H100_DATASHEET),
    ("vector.peak_flop_per_s", f"not at clock_hz: {H100_DATASHEET} states it at the 1.98 GHz maximum clock"),
    ("core_buffer_bytes", f"{H100_DATASHEET}: L1 and shared memory of one SM"),
    ("sram.capacity_bytes", f"{H100_DATASHEET}: L2"),
    (
        "sram.bandwidth_bytes_per_s",
        "estimate: L2 reads of 5.5 to 6 TB/s in Chips and Cheese, H100 (July 2023), recalled",
    ),
    ("hbm.capacity_bytes", f"{H100_DATASHEET}; {HBM_BINARY}"),
    ("hbm.bandwidth_bytes_per_s", H100_DATASHEET),
    ("hbm_visible_frac", "torch.cuda.get_device_properties of an H100 80GB HBM3: total_memory 81090 MiB (torch 2.7)"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", H100_DATASHEET),
    ("interconnect_bytes_per_s", f"{H100_DATASHEET}: NVLink4, 18 links, 900 GB/s both ways"),
    ("calibration", f"{GH100_CALIBRATION_SOURCE}; same GH100 die and power limit"),
    ("energy", f"{GH100_ENERGY_SOURCE}; same GH100 die"),
    ("die", f"{H100_DATASHEET}: GH100 has 144 SMs, 60 MB of L2 and 6 HBM sites; 132, 50 and 5 are in use"),
    ("die.num_link_lanes", "NVLink4: 2 lanes of 100 Gb/s a link (recalled)"),
)
FACTS = (
    ("die area", "814 mm2", H100_DATASHEET),
    ("transistors", "80 billion", H100_DATASHEET),
    ("base and boost clock", "1665 MHz and 1980 MHz", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("register file", "256 KiB per SM", H100_DATASHEET),
)


@chips.register("h100-sxm")
@device_names("NVIDIA H100 80GB HBM3")
def h100_sxm() -> Chip:
    """The 132-SM part that most public training runs of 2023 to 2025 used."""
    return Chip(
        name="h100-sxm",
        vendor="NVIDIA",
        year=2022,
        process="TSMC 4N",
        clock_hz=1.83 * GIGA,
        tensor=TensorUnits(num_units=132, num_rows=64, num_cols=32, tiling=PAIRED_TILING, rates=RATES),
        vector=VectorUnits(num_units=132, num_lanes=128, peak_flop_per_s=66.9 * TERA),
        core_buffer_bytes=256 * KIBI,
        sram=Memory(capacity_bytes=50 * MEBI, bandwidth_bytes_per_s=5.5 * TERA),
        hbm=Memory(capacity_bytes=80 * GIBI, bandwidth_bytes_per_s=3.35 * TERA),
        hbm_visible_frac=79.19 / 80,
        tdp_w=700.0,
        interconnect_bytes_per_s=450 * GIGA,
        calibration=GH100_CALIBRATION,
        energy=GH100_ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
