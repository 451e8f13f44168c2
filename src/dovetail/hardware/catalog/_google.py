"""What the TPUs share: the MXU's tile, the vector unit, calibration and where the figures come from."""

from __future__ import annotations

from dovetail.hardware.catalog._measured import borrowed_calibration
from dovetail.hardware.chip import VectorUnits
from dovetail.units import MICRO

JAX_TPU_INFO = "JAX, pallas tpu_info.py (constants per TensorCore)"
SCALING_BOOK = "How to Scale Your Model (scaling book), TPU chapter"
EPOCH = "Epoch AI Machine Learning Hardware table (Dec 2025)"
ISCA_2021 = "Jouppi et al., ISCA 2021, recalled"
ISCA_2023 = "Jouppi et al., ISCA 2023, recalled"
NORRIE = "Norrie et al., IEEE Micro 2021, recalled"

MXU_TILE = (8, 128, 128)
NUM_SUBLANES, NUM_LANES = 8, 128
VMEM_HBM_RATIO = 22.0  # VMEM moves about 22 times what HBM does (scaling book, TPU chapter)

TPU_CALIBRATION = borrowed_calibration(
    "the H200's HBM and vector shares; tensor, link and launch are estimates for a statically scheduled systolic chip: "
    "whole-step compilation leaves about 1 us between fused operators; published model runs hold 0.5 to 0.65 of peak",
    tensor_frac=0.85,
    link_frac=0.90,
    launch_s=1.0 * MICRO,
)
TPU_COMMON_SOURCES = (
    ("tensor.tile", f"{SCALING_BOOK}: rows stream in groups of 8 past a weight tile the size of the array"),
    ("vector", f"{JAX_TPU_INFO}: 8 sublanes x 128 lanes a core; {SCALING_BOOK}: 2 ALUs each to v4, 4 from v5"),
    ("calibration", "estimate: H200 shares for HBM and vector; tensor, link and launch reasoned, see fitted_on"),
)
VMEM_BANDWIDTH_SOURCE = f"estimate: 22 times HBM bandwidth ({SCALING_BOOK})"
VMEM_AS_SRAM_SOURCE = f"{JAX_TPU_INFO}: VMEM of all cores, the largest on-chip level"


def vector_units(num_cores: int, num_alus: int, clock_hz: float) -> VectorUnits:
    """The VPUs of `num_cores` TensorCores; a lane here is a pair of ALUs, as one multiply-add lane elsewhere."""
    num_lanes = NUM_SUBLANES * NUM_LANES * num_alus // 2
    return VectorUnits(num_units=num_cores, num_lanes=num_lanes, peak_flop_per_s=2 * num_cores * num_lanes * clock_hz)
