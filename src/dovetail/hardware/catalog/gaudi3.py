"""Intel Gaudi 3 OAM (air cooled)."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._habana import (
    GAUDI_CALIBRATION,
    GAUDI_CALIBRATION_SOURCE,
    GAUDI_ENERGY_SOURCE,
    GAUDI_TILE_SOURCE,
    GAUDI_TILING,
    HOT_CHIPS,
    TPC_BUFFER_SOURCE,
)
from dovetail.hardware.catalog._measured import ETHERNET_J_PER_BYTE, power_limited_energy
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import BITS_PER_BYTE, GIBI, GIGA, KIBI, MEBI, NANO, TERA

TDP_W = 900.0
RATES = (("bf16", 1835 * TERA), ("fp8", 1835 * TERA))
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=1835 * TERA,
    tensor_frac=GAUDI_CALIBRATION.tensor_frac,
    node="5 nm",
    link_j_per_byte=ETHERNET_J_PER_BYTE,
)
DIE = Die(
    node_m=5 * NANO,
    num_dies=2,
    register_bytes=10 * KIBI,
    num_schedulers=4,
    num_hbm_stacks=8,
    hbm_generation="HBM2e",
    num_link_lanes=24 * 2,
)
SOURCES = (
    ("year", HOT_CHIPS),
    ("clock_hz", "estimate: the clock that gives both the matrix and the vector peak: 1835e12 / (8 * 256 * 256 * 2)"),
    ("tensor", f"{HOT_CHIPS}: 8 engines, bf16 and fp8 alike; 256x256 MAC (trade press on the launch, 2024)"),
    ("tensor.tiling", GAUDI_TILE_SOURCE),
    ("vector", f"{HOT_CHIPS}: 64 tensor processor cores; estimate: fp32 at half of the 28.7 TFLOP/s bf16 vector peak"),
    ("core_buffer_bytes", TPC_BUFFER_SOURCE),
    ("sram", f"{HOT_CHIPS}: 96 MB of L2, 12.8 TB/s"),
    ("hbm.capacity_bytes", f"{HOT_CHIPS}: 128 GB are GiB, as hl-smi reports (131072 MiB)"),
    ("hbm.bandwidth_bytes_per_s", f"{HOT_CHIPS}: 3.67 TB/s"),
    ("hbm_visible_frac", "no published figure; hl-smi's, all of HBM"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", f"{HOT_CHIPS}: air cooled"),
    ("interconnect_bytes_per_s", "21 of the 24 200 GbE ports face the seven neighbours in a box of eight (HLB-325)"),
    ("calibration", GAUDI_CALIBRATION_SOURCE),
    ("energy", GAUDI_ENERGY_SOURCE),
    ("die", f"{HOT_CHIPS}: two dies, 8 stacks, 24 ports of 2 lanes"),
    ("die.register_bytes", "estimate: 40 vectors of 256 bytes a tensor processor core"),
    ("die.num_schedulers", "estimate: the four issue slots of a tensor processor core"),
)
FACTS = (
    ("bf16 peak, other source", "1678 TFLOP/s", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("TDP, liquid cooled", "1200 W", HOT_CHIPS),
    ("SRAM bandwidth, other source", "19.2 TB/s", "trade press on the launch (2024)"),
    ("network", "24 x 200 GbE RoCE v2, 1200 GB/s both ways", HOT_CHIPS),
)


@chips.register("gaudi3")
def gaudi3() -> Chip:
    """Two mirrored dies, eight matrix engines, one device to software."""
    return Chip(
        name="gaudi3",
        vendor="Intel (Habana)",
        year=2024,
        process="TSMC 5 nm",
        clock_hz=1.75 * GIGA,
        tensor=TensorUnits(num_units=8, num_rows=256, num_cols=256, tiling=GAUDI_TILING, rates=RATES),
        vector=VectorUnits(num_units=64, num_lanes=64, peak_flop_per_s=14.35 * TERA),
        core_buffer_bytes=80 * KIBI,
        sram=Memory(capacity_bytes=96 * MEBI, bandwidth_bytes_per_s=12.8 * TERA),
        hbm=Memory(capacity_bytes=128 * GIBI, bandwidth_bytes_per_s=3.67 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=21 * 200 * GIGA / BITS_PER_BYTE,
        calibration=GAUDI_CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
