"""NVFP4: 4-bit numbers in blocks of 16 with e4m3 scales, and one fp32 scale per tensor."""

from __future__ import annotations

from dovetail.workload.scaling_recipes import ScalingRecipe, scaling_recipes

# A sweep for the largest element of the tensor, which sets the fp32 scale, then the cast; what weight gradients read is
# turned by a random Hadamard transform within the same kernels.
scaling_recipes.register("nvfp4")(
    ScalingRecipe(
        name="nvfp4",
        summary="4-bit numbers, e4m3 scales of 16 elements and one scale per tensor: it is read twice",
        source="NVIDIA, arXiv:2509.25149, section 3; Transformer Engine 2, NVFP4BlockScaling",
        dtype="fp4",
        format="nvfp4",
        scale_block=16,
        scale_bytes=1.0,
        num_sweeps=1,
        launch={
            "megatron-lm": (("--fp4-format", "e2m1"), ("--fp4-recipe", "nvfp4")),
        },
    )
)
