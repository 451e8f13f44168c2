"""AMD Instinct MI300X 192 GB."""

from __future__ import annotations

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import (
    BOARD_LINK_J_PER_BYTE,
    POWER_LIMITED_SOURCE,
    borrowed_gpu_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import GPU_TILING
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

DATASHEET = "AMD Instinct MI300X datasheet and CDNA 3 white paper (2023)"
TDP_W = 750.0
RATES = (
    ("bf16", 1307.4 * TERA),
    ("fp16", 1307.4 * TERA),
    ("fp8", 2614.9 * TERA),
    ("int8", 2614.9 * TERA),
    ("tf32", 653.7 * TERA),
    ("fp32", 163.4 * TERA),
)
CLOCK_HZ = 2.1 * GIGA
CALIBRATION = borrowed_gpu_calibration(
    "NVIDIA's; tensor_frac from published bf16 GEMMs of 600 to 700 TFLOP/s, hbm_frac from 4.0 to 4.3 TB/s (recalled)",
    CLOCK_HZ,
    tensor_frac=0.55,
    hbm_frac=0.80,
)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=1307.4 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="5 nm",
    link_j_per_byte=BOARD_LINK_J_PER_BYTE,
)
DIE = Die(
    node_m=5 * NANO,
    num_dies=8,
    num_io_dies=4,
    io_node_m=6 * NANO,
    register_bytes=512 * KIBI,
    num_schedulers=4,
    num_fp64_lanes=64,
    has_dot_products=True,
    spare_core_frac=2 / 40,
    num_hbm_stacks=8,
    hbm_generation="HBM3",
    num_link_lanes=7 * 16,
)
SOURCES = (
    ("year", DATASHEET),
    ("clock_hz", f"{DATASHEET}: peak engine clock"),
    ("tensor", f"{DATASHEET}, dense; units are compute units; rows x cols is only their 1024 MACs a clock"),
    ("tensor.tiling", "estimate: as the NVIDIA parts; the tile most large products choose"),
    ("vector", f"{DATASHEET}: 256 FLOP a clock and compute unit with dual issue"),
    ("core_buffer_bytes", f"{DATASHEET}: local data share of one compute unit"),
    ("sram.capacity_bytes", f"{DATASHEET}: Infinity Cache, shared by all eight compute dies"),
    ("sram.bandwidth_bytes_per_s", "17 TB/s peak of the Infinity Cache (ServeTheHome, MI300X launch, 2023)"),
    ("hbm.capacity_bytes", f"{DATASHEET}: 192 GB are GiB, as the driver reports"),
    ("hbm.bandwidth_bytes_per_s", DATASHEET),
    (
        "hbm_visible_frac",
        "PyTorch on ROCm, out of memory on MI300X: total capacity of 191.98 GiB (AMD ROCm fine-tuning guide)",
    ),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", DATASHEET),
    ("interconnect_bytes_per_s", f"{DATASHEET}: 7 Infinity Fabric links of 128 GB/s both ways"),
    ("calibration", "estimate: the H200's measured shares; tensor and HBM from published MI300X rates (recalled)"),
    ("energy", f"{POWER_LIMITED_SOURCE}; link 3.6 pJ/bit, between DeepFlow's on-package and inter-node figures"),
    ("die", f"{DATASHEET}: 8 compute dies with 38 of 40 units in use, 4 I/O dies, 8 stacks, 16 lanes a link"),
    ("die.register_bytes", f"{DATASHEET}: 512 KB of vector registers a compute unit; the L2 of the dies is left out"),
)
FACTS = (
    ("transistors", "153 billion", DATASHEET),
    ("die area", "1017 mm2, definition unclear for a chiplet part", "Epoch AI table, from TechPowerUp"),
    ("L2", "4 MB per compute die, 32 MB in all", DATASHEET),
)


@chips.register("mi300x")
@device_names("AMD Instinct MI300X")
def mi300x() -> Chip:
    """Eight compute dies on four I/O dies, one device to software."""
    return Chip(
        name="mi300x",
        vendor="AMD",
        year=2023,
        process="TSMC 5 nm compute, 6 nm I/O",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=304, num_rows=32, num_cols=32, tiling=GPU_TILING, rates=RATES),
        vector=VectorUnits(num_units=304, num_lanes=128, peak_flop_per_s=163.4 * TERA),
        core_buffer_bytes=64 * KIBI,
        sram=Memory(capacity_bytes=256 * MEBI, bandwidth_bytes_per_s=17 * TERA),
        hbm=Memory(capacity_bytes=192 * GIBI, bandwidth_bytes_per_s=5.3 * TERA),
        hbm_visible_frac=191.98 / 192,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=448 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
