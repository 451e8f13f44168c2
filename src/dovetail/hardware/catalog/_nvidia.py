"""What NVIDIA parts share: where their figures come from, and how their matrices are tiled."""

from __future__ import annotations

from dovetail.hardware.chip import Tiling

V100_DATASHEET = "NVIDIA Tesla V100 GPU architecture white paper (2017)"
A100_DATASHEET = "NVIDIA A100 Tensor Core GPU datasheet and architecture white paper (2020)"
H100_DATASHEET = "NVIDIA H100 Tensor Core GPU datasheet and architecture white paper (2022)"
H200_DATASHEET = "NVIDIA H200 Tensor Core GPU datasheet (2023)"
B200_DATASHEET = "NVIDIA HGX B200 and DGX B200 datasheets (2024)"
GB200_DATASHEET = "NVIDIA GB200 NVL72 datasheet (2024)"

GPU_SIZES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
GPU_TILING = Tiling(tiles=GPU_SIZES, num_steps=64)
# before Hopper the threads that multiply also write the results; since then the copy engine of the SM writes them
OLD_GPU_TILING = Tiling(tiles=GPU_SIZES, num_steps=64, is_output_hidden=False)
TILE_SOURCE = "estimate: thread-block tiles that cuBLAS and CUTLASS choose for bf16 products; best fit of 6,300 GEMMs"
SM_LAYOUT = "units are SMs; rows x cols is only their product, the multiply-accumulates of one SM in one clock"
HBM_BINARY = "the marketed GB are GiB, as nvidia-smi reports them to within its reserve of about 1 %"
