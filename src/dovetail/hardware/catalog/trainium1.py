"""AWS Trainium (first generation)."""

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

TDP_W = 250.0
RATES = (
    ("bf16", 190 * TERA),
    ("fp16", 190 * TERA),
    ("fp8", 190 * TERA),
    ("tf32", 190 * TERA),
    ("int8", 380 * TERA),
    ("fp32", 47.5 * TERA),
)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=190 * TERA,
    tensor_frac=TRAINIUM_CALIBRATION.tensor_frac,
    node="7 nm",
    link_j_per_byte=BOARD_LINK_J_PER_BYTE,
)
DIE = Die(
    node_m=7 * NANO,
    num_dies=1,
    register_bytes=2 * MEBI,
    num_schedulers=5,
    buffered_units="none",
    num_hbm_stacks=2,
    hbm_generation="HBM2e",
    num_link_lanes=48,
)
SOURCES = (
    ("year", "general availability of Trn1, October 2022"),
    ("clock_hz", f"{NKI_GUIDE}: tensor engine 2.8 GHz"),
    ("tensor", f"{CHIP_PAGE} for the rates; {NKI_GUIDE}: one 128x128 array in each of two cores"),
    ("tensor.tiling", TRAINIUM_TILE_SOURCE),
    ("vector", f"{NKI_GUIDE}: one vector engine of 128 lanes in each of two cores"),
    (
        "vector.peak_flop_per_s",
        "not at clock_hz: AWS NeuronCore-v2 page, 2.3 TFLOP/s fp32 a core; the engine runs at 1.12 GHz",
    ),
    ("core_buffer_bytes", f"{NKI_GUIDE}: state buffer of one core"),
    ("sram.capacity_bytes", f"{NKI_GUIDE}: state buffers of both cores, the largest on-chip level"),
    (
        "sram.bandwidth_bytes_per_s",
        "estimate: 2 x 128 bf16 elements a clock and core at 2.8 GHz, as the NKI guide gives for Trainium2",
    ),
    ("hbm.capacity_bytes", f"{CHIP_PAGE}: 32 GiB"),
    ("hbm.bandwidth_bytes_per_s", f"{NKI_GUIDE}: 820 GB/s; the chip page says 820 GiB/s"),
    ("hbm_visible_frac", "no published figure; all of HBM"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", "estimate: the A100's 0.78 TFLOP/s a watt, same year and node class; AWS publishes none"),
    ("interconnect_bytes_per_s", f"{CHIP_PAGE}: NeuronLink-v2, 384 GB/s a chip both ways over 4 links"),
    ("calibration", TRAINIUM_CALIBRATION_SOURCE),
    ("energy", f"{POWER_LIMITED_SOURCE}; link 3.6 pJ/bit, between DeepFlow's on-package and inter-node figures"),
    (
        "die",
        f"{NKI_GUIDE}: 2 stacks, 2 MiB of partial sums and five engines a core; estimate: 7 nm, 48 lanes of 32 Gb/s",
    ),
)
FACTS = (
    ("scalar engine", "2.9 TFLOP/s fp32 per core, 1.4 GHz", "AWS NeuronCore-v2 page; NKI guide"),
    ("bf16 peak by the array", "183.5 TFLOP/s", f"{NKI_GUIDE}: 2 x 128 x 128 x 2 at 2.8 GHz"),
    ("partial-sum buffer", "2 MiB per core", NKI_GUIDE),
)


@chips.register("trainium1")
def trainium1() -> Chip:
    """Two NeuronCore-v2 and two HBM stacks."""
    return Chip(
        name="trainium1",
        vendor="AWS",
        year=2022,
        process="7 nm class",
        clock_hz=2.8 * GIGA,
        tensor=TensorUnits(num_units=2, num_rows=128, num_cols=128, tiling=TRAINIUM_TILING, rates=RATES),
        vector=VectorUnits(num_units=2, num_lanes=128, peak_flop_per_s=4.6 * TERA),
        core_buffer_bytes=24 * MEBI,
        sram=Memory(capacity_bytes=48 * MEBI, bandwidth_bytes_per_s=2.87 * TERA),
        hbm=Memory(capacity_bytes=32 * GIBI, bandwidth_bytes_per_s=0.82 * TERA),
        tdp_w=TDP_W,
        interconnect_bytes_per_s=192 * GIGA,
        calibration=TRAINIUM_CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
