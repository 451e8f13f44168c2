"""NVIDIA A100 SXM4 80 GB."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import (
    GH100_CALIBRATION_SOURCE,
    GH100_ENERGY,
    POWER_LIMITED_SOURCE,
    gpu_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import A100_DATASHEET, HBM_BINARY, OLD_GPU_TILING, SM_LAYOUT, TILE_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, PICO, TERA

TDP_W = 400.0
RATES = (
    ("bf16", 312 * TERA),
    ("fp16", 312 * TERA),
    ("int8", 624 * TERA),
    ("tf32", 156 * TERA),
    ("fp32", 19.5 * TERA),
)
CLOCK_HZ = 1.41 * GIGA
# Hosts of its time: EPYC 7742 (DGX A100) against those of the H200, about 1.35 times slower on one thread (estimate).
HOST_SLOWER = 1.35
CALIBRATION = gpu_calibration(CLOCK_HZ, host_slower=HOST_SLOWER)
# Published GEMMs above 1 ms hold 0.79 of peak, nearly the whole main loop: 1.25 pJ/FLOP keeps 400 W there.
ENERGY = replace(
    power_limited_energy(
        tdp_w=TDP_W,
        peak_flop_per_s=312 * TERA,
        tensor_frac=CALIBRATION.tensor_frac,
        node="7 nm",
        link_j_per_byte=GH100_ENERGY.link_j_per_byte,
    ),
    tensor_j_per_flop=1.25 * PICO,
)
DIE = Die(
    node_m=7 * NANO,
    register_bytes=256 * KIBI,
    num_schedulers=4,
    num_fp64_lanes=32,
    has_dot_products=True,
    spare_core_frac=20 / 128,
    spare_sram_frac=8 / 48,
    num_hbm_stacks=5,
    num_spare_hbm_phys=1,
    hbm_generation="HBM2e",
    num_link_lanes=12 * 4,
)
SOURCES = (
    ("year", A100_DATASHEET),
    ("clock_hz", f"{A100_DATASHEET}: boost clock, at which the peaks are stated"),
    ("tensor", f"{A100_DATASHEET}, dense; {SM_LAYOUT} (4 tensor cores of 256); fp32 runs on the vector lanes"),
    ("tensor.tiling", TILE_SOURCE),
    ("vector", A100_DATASHEET),
    ("core_buffer_bytes", f"{A100_DATASHEET}: L1 and shared memory of one SM"),
    ("sram.capacity_bytes", f"{A100_DATASHEET}: L2"),
    ("sram.bandwidth_bytes_per_s", "estimate: 70 % of the white paper's 5120 bytes a clock at 1.41 GHz (7.2 TB/s)"),
    ("hbm.capacity_bytes", f"{A100_DATASHEET}; {HBM_BINARY}"),
    ("hbm.bandwidth_bytes_per_s", f"{A100_DATASHEET}: 2039 GB/s, 80 GB SXM part"),
    (
        "hbm_visible_frac",
        "PyTorch, out of memory on A100 80 GB: total capacity of 79.15 GiB; newer drivers show 79.25 to 79.3",
    ),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", A100_DATASHEET),
    ("interconnect_bytes_per_s", f"{A100_DATASHEET}: NVLink3, 12 links, 600 GB/s both ways"),
    ("calibration", GH100_CALIBRATION_SOURCE),
    ("energy", f"{POWER_LIMITED_SOURCE}; tensor energy from the rate that long published GEMMs hold at 400 W"),
    ("die", f"{A100_DATASHEET}: GA100 has 128 SMs, 48 MB of L2 and 6 HBM sites; 108, 40 and 5 are in use"),
    ("die.num_link_lanes", "NVLink3: 4 lanes of 50 Gb/s a link (recalled)"),
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
@device_names("NVIDIA A100-SXM4-80GB")
def a100_80gb_sxm() -> Chip:
    """The part of Selene and of most large runs of 2021 and 2022."""
    return Chip(
        name="a100-80gb-sxm",
        vendor="NVIDIA",
        year=2020,
        process="TSMC 7 nm (N7)",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=108, num_rows=32, num_cols=32, tiling=OLD_GPU_TILING, rates=RATES),
        vector=VectorUnits(num_units=108, num_lanes=64, peak_flop_per_s=19.5 * TERA),
        core_buffer_bytes=192 * KIBI,
        sram=Memory(capacity_bytes=40 * MEBI, bandwidth_bytes_per_s=5.0 * TERA),
        hbm=Memory(capacity_bytes=80 * GIBI, bandwidth_bytes_per_s=2.039 * TERA),
        hbm_visible_frac=79.15 / 80,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=300 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
