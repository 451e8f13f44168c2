"""Delayed scaling: one scale per tensor, from the largest elements of earlier steps."""

from __future__ import annotations

from dovetail.workload.scaling_recipes import ScalingRecipe, scaling_recipes

# The history of maxima is updated for all tensors at once, once per step, which is too little to count. What experts
# read is cast and turned by one kernel for all of them (multi_cast_transpose).
scaling_recipes.register("delayed")(
    ScalingRecipe(
        name="delayed",
        summary="one scale per tensor, from the maxima of earlier steps",
        source="Micikevicius et al., arXiv:2209.05433; Transformer Engine 2, DelayedScaling, multi_cast_transpose.cu",
        dtype="fp8",
        format="fp8",
        is_grouped=True,
        is_norm_fused=True,
        launch={
            "megatron-lm": (("--fp8-format", "hybrid"), ("--fp8-recipe", "delayed")),
        },
    )
)
