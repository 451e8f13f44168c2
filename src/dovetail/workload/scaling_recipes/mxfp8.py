"""MXFP8: blocks of 32 with scales that are powers of two, which the tensor units apply."""

from __future__ import annotations

from dovetail.workload.scaling_recipes import ScalingRecipe, scaling_recipes

# Two kernels: the cast, and scales laid out as the tensor units read them; the second is one for all experts, as small
# as scales are.
scaling_recipes.register("mxfp8")(
    ScalingRecipe(
        name="mxfp8",
        summary="scales of 32 elements, one byte each (e8m0), applied by the tensor units",
        source="Rouhani et al., arXiv:2310.10537; OCP MX specification 1.0; Transformer Engine 2, MXFP8BlockScaling",
        dtype="fp8",
        format="mxfp8",
        scale_block=32,
        scale_bytes=1.0,
        is_norm_fused=True,
        launch={
            "megatron-lm": (("--fp8-format", "e4m3"), ("--fp8-recipe", "mxfp8")),
            "torchtitan": (("recipe_name", "mxfp8_cublas"),),
        },
    )
)
