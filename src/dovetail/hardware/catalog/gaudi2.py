"""Intel (Habana) Gaudi 2 OAM."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._habana import (
    GAUDI2_PAPER,
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

TDP_W = 600.0
RATES = (("bf16", 432 * TERA), ("fp8", 865 * TERA))
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=432 * TERA,
    tensor_frac=GAUDI_CALIBRATION.tensor_frac,
    node="7 nm",
    link_j_per_byte=ETHERNET_J_PER_BYTE,
)
DIE = Die(
    node_m=7 * NANO,
    num_dies=1,
    register_bytes=10 * KIBI,
    num_schedulers=4,
    num_hbm_stacks=6,
    hbm_generation="HBM2e",
    num_link_lanes=24 * 2,
)
SOURCES = (
    ("year", GAUDI2_PAPER),
    ("clock_hz", "estimate: the clock that gives the 432 TFLOP/s bf16 peak on two 256x256 engines"),
    ("tensor", f"{HOT_CHIPS}: 432 TFLOP/s bf16; fp8 865 TFLOP/s (Epoch AI table)"),
    ("tensor.num_units", f"{GAUDI2_PAPER}: two matrix multiplication engines"),
    ("tensor.num_rows", "estimate: the 256x256 engine reported for Gaudi 3"),
    ("tensor.num_cols", "estimate: the 256x256 engine reported for Gaudi 3"),
    ("tensor.tiling", GAUDI_TILE_SOURCE),
    ("vector", f"{GAUDI2_PAPER}: 24 tensor processor cores, vectors of 2048 bits"),
    (
        "vector.peak_flop_per_s",
        "not at clock_hz: estimate: half of the 11 TFLOP/s bf16 vector peak (Intel, recalled), which implies 1.8 GHz",
    ),
    ("core_buffer_bytes", TPC_BUFFER_SOURCE),
    ("sram.capacity_bytes", f"{GAUDI2_PAPER}: 48 MB, recalled"),
    ("sram.bandwidth_bytes_per_s", "estimate: half of Gaudi 3's 12.8 TB/s, as it has half the SRAM"),
    ("hbm.capacity_bytes", f"{HOT_CHIPS}: 96 GB are GiB, as hl-smi reports (98304 MiB)"),
    ("hbm.bandwidth_bytes_per_s", f"{HOT_CHIPS}: 2.46 TB/s"),
    ("hbm_visible_frac", "no published figure; hl-smi's, all of HBM"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", HOT_CHIPS),
    ("interconnect_bytes_per_s", "21 of the 24 100 GbE ports face the seven neighbours in a box of eight (HLS-Gaudi2)"),
    ("calibration", GAUDI_CALIBRATION_SOURCE),
    ("energy", GAUDI_ENERGY_SOURCE),
    ("die", f"{GAUDI2_PAPER}: one die, 6 stacks, 24 ports of 2 lanes"),
    ("die.register_bytes", "estimate: 40 vectors of 256 bytes a tensor processor core"),
    ("die.num_schedulers", "estimate: the four issue slots of a tensor processor core"),
)
FACTS = (
    ("bf16 peak, other source", "450 TFLOP/s", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("die area", "826 mm2, low confidence", "Epoch AI Machine Learning Hardware table (Dec 2025)"),
    ("network", "24 x 100 GbE RoCE v2, 4.8 Tb/s both ways", HOT_CHIPS),
)


@chips.register("gaudi2")
def gaudi2() -> Chip:
    """Two matrix engines, 24 vector cores and 24 Ethernet ports on one die."""
    return Chip(
        name="gaudi2",
        vendor="Intel (Habana)",
        year=2022,
        process="TSMC 7 nm",
        clock_hz=1.65 * GIGA,
        tensor=TensorUnits(num_units=2, num_rows=256, num_cols=256, tiling=GAUDI_TILING, rates=RATES),
        vector=VectorUnits(num_units=24, num_lanes=64, peak_flop_per_s=5.5 * TERA),
        core_buffer_bytes=80 * KIBI,
        sram=Memory(capacity_bytes=48 * MEBI, bandwidth_bytes_per_s=6.4 * TERA),
        hbm=Memory(capacity_bytes=96 * GIBI, bandwidth_bytes_per_s=2.46 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=21 * 100 * GIGA / BITS_PER_BYTE,
        calibration=GAUDI_CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
