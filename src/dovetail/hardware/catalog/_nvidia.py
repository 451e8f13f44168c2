"""What NVIDIA parts share: where their figures come from, and how their matrices are tiled."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.chip import Tiling

V100_DATASHEET = "NVIDIA Tesla V100 GPU architecture white paper (2017)"
A100_DATASHEET = "NVIDIA A100 Tensor Core GPU datasheet and architecture white paper (2020)"
H100_DATASHEET = "NVIDIA H100 Tensor Core GPU datasheet and architecture white paper (2022)"
H200_DATASHEET = "NVIDIA H200 Tensor Core GPU datasheet (2023)"
B200_DATASHEET = "NVIDIA HGX B200 and DGX B200 datasheets (2024)"
GB200_DATASHEET = "NVIDIA GB200 NVL72 datasheet (2024)"

GPU_SIZES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
GPU_TILING = Tiling(tiles=GPU_SIZES, num_steps=64)
# Since Hopper, pairs of SMs share operands: cuBLAS's kernels on an H200 say 1x2 or 2x1 in their names. A pair lies in
# one of the 8 GPCs (H100 white paper; clusters of 2 to 8 on an H200 show groups of 16 and 18 SMs). B200: as H200.
PAIRED_TILING = replace(GPU_TILING, num_cluster_units=2, num_groups=8)
# before Hopper the threads that multiply also write the results; since then the copy engine of the SM writes them
OLD_GPU_TILING = Tiling(tiles=GPU_SIZES, num_steps=64, is_output_hidden=False)
TILE_SOURCE = "estimate: thread-block tiles that cuBLAS and CUTLASS choose for bf16 products; best fit of 6,300 GEMMs"
SM_LAYOUT = "units are SMs; rows x cols is only their product, the multiply-accumulates of one SM in one clock"
HBM_BINARY = "the marketed GB are GiB, as nvidia-smi reports them to within its reserve of about 1 %"
