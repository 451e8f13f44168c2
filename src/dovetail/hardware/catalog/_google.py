"""What the TPUs share: the MXU's tile, the vector unit, calibration and where the figures come from."""

from __future__ import annotations

from dovetail.hardware.chip import Tiling, VectorUnits

JAX_TPU_INFO = "JAX, pallas tpu_info.py (constants per TensorCore)"
SCALING_BOOK = "How to Scale Your Model (scaling book), TPU chapter"
EPOCH = "Epoch AI Machine Learning Hardware table (Dec 2025)"
ISCA_2021 = "Jouppi et al., ISCA 2021, recalled"
ISCA_2023 = "Jouppi et al., ISCA 2023, recalled"
XLA_VISIBLE_SOURCE = "XLA counts all of HBM, and its own reserve apart"
XLA_RESERVE_SOURCE = "what XLA keeps of HBM for itself"
NORRIE = "Norrie et al., IEEE Micro 2021, recalled"


def mxu_tiling(num_cols: int) -> Tiling:
    """An array that holds a tile of weights, or of inputs where XLA swaps them; the next tile loads meanwhile."""
    return Tiling(tiles=((num_cols, num_cols),), stationary=("weight", "input"))


MXU_TILING = mxu_tiling(128)
NUM_SUBLANES, NUM_LANES = 8, 128
VMEM_HBM_RATIO = 22.0  # VMEM moves about 22 times what HBM does (scaling book, TPU chapter)

TPU_COMMON_SOURCES = (
    ("tensor.tiling", f"{SCALING_BOOK}: rows stream past a weight tile the size of the array"),
    ("tensor.buffer_bytes", "estimate: accumulators of 256 rows of fp32; eight times as much changes no product here"),
    ("vector", f"{JAX_TPU_INFO}: 8 sublanes x 128 lanes a core; {SCALING_BOOK}: 2 ALUs each to v4, 4 from v5"),
    (
        "calibration",
        "fitted on 715 products of a TPU v4 in fp16, 16 published steps of v4 to v6e; estimate: vector_frac, link_frac",
    ),
)
VMEM_BANDWIDTH_SOURCE = f"estimate: 22 times HBM bandwidth ({SCALING_BOOK})"
VMEM_AS_SRAM_SOURCE = f"{JAX_TPU_INFO}: VMEM of all cores, the largest on-chip level"


def vector_units(num_cores: int, num_alus: int, clock_hz: float) -> VectorUnits:
    """The VPUs of `num_cores` TensorCores; a lane here is a pair of ALUs, as one multiply-add lane elsewhere."""
    num_lanes = NUM_SUBLANES * NUM_LANES * num_alus // 2
    return VectorUnits(num_units=num_cores, num_lanes=num_lanes, peak_flop_per_s=2 * num_cores * num_lanes * clock_hz)
