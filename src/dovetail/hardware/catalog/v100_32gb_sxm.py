"""NVIDIA V100 SXM2 32 GB."""

from __future__ import annotations

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import (
    BOARD_LINK_J_PER_BYTE,
    POWER_LIMITED_SOURCE,
    borrowed_gpu_calibration,
    power_limited_energy,
)
from dovetail.hardware.catalog._nvidia import HBM_BINARY, OLD_GPU_TILING, SM_LAYOUT, V100_DATASHEET
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import PLAN_RESERVE_SOURCE, Memory
from dovetail.units import GIBI, GIGA, KIBI, MEBI, NANO, TERA

TDP_W = 300.0
# No bf16: the first tensor cores take fp16 only, and asking for bf16 must fail rather than run at another dtype's rate.
RATES = (("fp16", 125 * TERA), ("fp32", 15.7 * TERA))
CLOCK_HZ = 1.53 * GIGA
CALIBRATION = borrowed_gpu_calibration(
    "later GPUs; tensor_frac from published V100 fp16 GEMMs near 95 TFLOP/s (recalled)", CLOCK_HZ, tensor_frac=0.80
)
ENERGY = power_limited_energy(
    tdp_w=TDP_W,
    peak_flop_per_s=125 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="12 nm",
    link_j_per_byte=BOARD_LINK_J_PER_BYTE,
)
DIE = Die(
    node_m=12 * NANO,
    register_bytes=256 * KIBI,
    num_schedulers=4,
    num_fp64_lanes=32,
    has_dot_products=True,
    spare_core_frac=4 / 84,
    num_hbm_stacks=4,
    hbm_generation="HBM2",
    num_link_lanes=6 * 8,
)
SOURCES = (
    ("year", f"{V100_DATASHEET}; the 32 GB part followed in 2018"),
    ("clock_hz", f"{V100_DATASHEET}: boost clock, at which the peaks are stated"),
    ("tensor", f"{V100_DATASHEET}; {SM_LAYOUT} (8 tensor cores of 64); fp32 runs on the vector lanes"),
    ("tensor.tiling", "estimate: the thread-block tile of the fp16 kernels of cuBLAS on this part"),
    ("vector", V100_DATASHEET),
    ("core_buffer_bytes", f"{V100_DATASHEET}: L1 and shared memory of one SM"),
    ("sram.capacity_bytes", f"{V100_DATASHEET}: L2"),
    ("sram.bandwidth_bytes_per_s", "L2 load throughput of 2155 GB/s (Jia et al. 2018, microbenchmarks), recalled"),
    ("hbm.capacity_bytes", f"{V100_DATASHEET}, 32 GB part; {HBM_BINARY}"),
    ("hbm.bandwidth_bytes_per_s", V100_DATASHEET),
    ("hbm_visible_frac", "torch.cuda.get_device_properties of a V100 32 GB (PCIe): total_memory 32510 MiB"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
    ("tdp_w", V100_DATASHEET),
    ("interconnect_bytes_per_s", f"{V100_DATASHEET}: NVLink2, 6 links, 300 GB/s both ways"),
    ("calibration", "estimate: the H200's measured shares; tensor_frac from published V100 GEMM rates (recalled)"),
    ("energy", f"{POWER_LIMITED_SOURCE}; link 3.6 pJ/bit, between DeepFlow's on-package and inter-node figures"),
    ("die", f"{V100_DATASHEET}: 84 SMs on the die, 80 in use; register file, schedulers, FP64 lanes; 4 stacks"),
    ("die.num_link_lanes", "NVLink2: 8 lanes of 25 Gb/s a link (recalled)"),
)
FACTS = (
    ("die area", "815 mm2", V100_DATASHEET),
    ("transistors", "21.1 billion", V100_DATASHEET),
    ("shared memory", "96 KiB of the 128 KiB", V100_DATASHEET),
    (
        "die breakdown",
        "cores 244.5, L2 65.7, RF 17.9, L1 8.4, I/O 81.5 mm2",
        "DeepFlow configurations, from a die photograph",
    ),
)


@chips.register("v100-32gb-sxm")
@device_names("Tesla V100-SXM2-32GB")
def v100_32gb_sxm() -> Chip:
    """The first part with tensor cores, 32 GB version."""
    return Chip(
        name="v100-32gb-sxm",
        vendor="NVIDIA",
        year=2017,
        process="TSMC 12 nm FFN",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(num_units=80, num_rows=16, num_cols=32, tiling=OLD_GPU_TILING, rates=RATES),
        vector=VectorUnits(num_units=80, num_lanes=64, peak_flop_per_s=15.7 * TERA),
        core_buffer_bytes=128 * KIBI,
        sram=Memory(capacity_bytes=6 * MEBI, bandwidth_bytes_per_s=2.155 * TERA),
        hbm=Memory(capacity_bytes=32 * GIBI, bandwidth_bytes_per_s=0.9 * TERA),
        hbm_visible_frac=31.75 / 32,
        tdp_w=TDP_W,
        interconnect_bytes_per_s=150 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
