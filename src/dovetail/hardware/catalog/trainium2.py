"""AWS Trainium2."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._aws import (
    CHIP_PAGE,
    NKI_GUIDE,
    TRAINIUM_CALIBRATION,
    TRAINIUM_CALIBRATION_SOURCE,
    TRAINIUM_TILE_SOURCE,
    TRAINIUM_TILING,
)
from dovetail.hardware.catalog._measured import (
    BOARD_LINK_J_PER_BYTE,
    POWER_LIMITED_SOURCE,
    power_limited_energy,
)
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, MEBI, NANO, TERA

TDP_W = 500.0
RATES = (
    ("bf16", 667 * TERA),
    ("fp16", 667 * TERA),
    ("fp8", 1299 * TERA),
    ("tf32", 667 * TERA),
    ("fp32", 181 * TERA),
)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=667 * TERA,
    tensor_frac=TRAINIUM_CALIBRATION.tensor_frac,
    node="5 nm",
    link_j_per_byte=BOARD_LINK_J_PER_BYTE,
)
DIE = Die(
    node_m=5 * NANO,
    num_dies=2,
    register_bytes=2 * MEBI,
    num_schedulers=5,
    buffered_units="none",
    num_hbm_stacks=4,
    hbm_generation="HBM3",
    num_link_lanes=160,
)
SOURCES = (
    ("year", "general availability of Trn2, December 2024"),
    ("clock_hz", "estimate: the clock that gives the chip page's 667 TFLOP/s; the NKI guide says 2.4 GHz (see facts)"),
    ("tensor", f"{CHIP_PAGE} for the rates; {NKI_GUIDE}: one 128x128 array in each of eight cores"),
    ("tensor.tiling", TRAINIUM_TILE_SOURCE),
    ("vector", f"{NKI_GUIDE}: eight vector engines, 256 fp32 elements a clock"),
    ("vector.peak_flop_per_s", f"not at clock_hz: {NKI_GUIDE}, 1.0 TFLOP/s fp32 a core; the engine runs at 0.96 GHz"),
    ("core_buffer_bytes", f"{NKI_GUIDE}: state buffer of one core, 28 MiB"),
    ("sram.capacity_bytes", f"{NKI_GUIDE}: state buffers of all eight cores, the largest on-chip level"),
    ("sram.bandwidth_bytes_per_s", f"estimate: {NKI_GUIDE}, 2 x 128 bf16 elements a clock and core at 2.4 GHz"),
    ("hbm.capacity_bytes", f"{NKI_GUIDE}: 96 GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{CHIP_PAGE}: 2.9 TB/s"),
    ("hbm_visible_frac", "no published figure; all of HBM"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", "estimate: third-party figure of about 500 W (Epoch AI table); AWS publishes none"),
    ("interconnect_bytes_per_s", f"{CHIP_PAGE}: NeuronLink-v3, 1.28 TB/s a chip, taken as both ways"),
    ("calibration", TRAINIUM_CALIBRATION_SOURCE),
    ("energy", f"{POWER_LIMITED_SOURCE}; link 3.6 pJ/bit, between DeepFlow's on-package and inter-node figures"),
    ("die", f"{NKI_GUIDE}: 4 stacks, 2 MiB of partial sums and five engines a core; estimate: 5 nm, two dies"),
    ("die.num_link_lanes", "estimate: 640 GB/s in lanes of 32 Gb/s"),
)
FACTS = (
    ("tensor engine clock and rate, other source", "2.4 GHz, 79 TFLOP/s bf16 per core (632 a chip)", NKI_GUIDE),
    ("HBM bandwidth, other source", "3 TB/s", NKI_GUIDE),
    ("partial-sum buffer", "2 MiB per core", NKI_GUIDE),
    ("sparse peak", "2563 TFLOP/s", CHIP_PAGE),
)


@chips.register("trainium2")
def trainium2() -> Chip:
    """Eight NeuronCore-v3 and four HBM stacks."""
    return Chip(
        name="trainium2",
        vendor="AWS",
        year=2024,
        process="5 nm class",
        clock_hz=2.545 * GIGA,
        tensor=TensorUnits(num_units=8, num_rows=128, num_cols=128, tiling=TRAINIUM_TILING, rates=RATES),
        vector=VectorUnits(num_units=8, num_lanes=256, peak_flop_per_s=8.0 * TERA),
        core_buffer_bytes=28 * MEBI,
        sram=Memory(capacity_bytes=224 * MEBI, bandwidth_bytes_per_s=9.83 * TERA),
        hbm=Memory(capacity_bytes=96 * GIBI, bandwidth_bytes_per_s=2.9 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=640 * GIGA,
        calibration=TRAINIUM_CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
