"""What the TPUs share: the MXU's tile, the vector unit, calibration and where the figures come from."""

from __future__ import annotations

from dovetail.hardware.chip import Calibration, Tiling, VectorUnits
from dovetail.units import MEBI, MICRO

JAX_TPU_INFO = "JAX, pallas tpu_info.py (constants per TensorCore)"
SCALING_BOOK = "How to Scale Your Model (scaling book), TPU chapter"
EPOCH = "Epoch AI Machine Learning Hardware table (Dec 2025)"
ISCA_2021 = "Jouppi et al., ISCA 2021, recalled"
ISCA_2023 = "Jouppi et al., ISCA 2023, recalled"
XLA_VISIBLE_SOURCE = "XLA counts all of HBM, and its own reserve apart"
XLA_RESERVE_SOURCE = "what XLA keeps of HBM for itself"
NORRIE = "Norrie et al., IEEE Micro 2021, recalled"


def mxu_tiling(num_cols: int) -> Tiling:
    """Rows stream in groups of 8 past a tile of weights or of inputs, whichever is quicker, once it has been loaded."""
    return Tiling(
        tiles=((num_cols, num_cols),),
        stationary=("weight", "input"),
        num_steps=8,
        fill="load",
        staging_bytes=16 * MEBI,
        is_output_hidden=False,
    )


MXU_TILING = mxu_tiling(128)
NUM_SUBLANES, NUM_LANES = 8, 128
VMEM_HBM_RATIO = 22.0  # VMEM moves about 22 times what HBM does (scaling book, TPU chapter)

# Least median and 90th percentile of error over 615 published GEMMs of a TPU v5e (fp32 operands in HBM, bf16 products).
TPU_CALIBRATION = Calibration(
    tensor_frac=0.93,
    vector_frac=0.80,
    hbm_frac=0.985,
    link_frac=0.90,
    launch_s=0.92 * MICRO,
    fitted_on="615 published GEMMs of a TPU v5e; vector and link shares are estimates",
)
TPU_COMMON_SOURCES = (
    ("tensor.tiling", f"{SCALING_BOOK}: rows stream in groups of 8 past a weight tile the size of the array"),
    ("vector", f"{JAX_TPU_INFO}: 8 sublanes x 128 lanes a core; {SCALING_BOOK}: 2 ALUs each to v4, 4 from v5"),
    ("calibration", "fitted on 615 published GEMMs of a TPU v5e; estimate: vector_frac and link_frac"),
)
VMEM_BANDWIDTH_SOURCE = f"estimate: 22 times HBM bandwidth ({SCALING_BOOK})"
VMEM_AS_SRAM_SOURCE = f"{JAX_TPU_INFO}: VMEM of all cores, the largest on-chip level"


def vector_units(num_cores: int, num_alus: int, clock_hz: float) -> VectorUnits:
    """The VPUs of `num_cores` TensorCores; a lane here is a pair of ALUs, as one multiply-add lane elsewhere."""
    num_lanes = NUM_SUBLANES * NUM_LANES * num_alus // 2
    return VectorUnits(num_units=num_cores, num_lanes=num_lanes, peak_flop_per_s=2 * num_cores * num_lanes * clock_hz)
