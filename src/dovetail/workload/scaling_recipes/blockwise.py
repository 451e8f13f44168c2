"""Blockwise scaling as DeepSeek-V3 has it: 1 x 128 of activations and gradients, 128 x 128 of weights."""

from __future__ import annotations

from dovetail.workload.scaling_recipes import ScalingRecipe, scaling_recipes

scaling_recipes.register("blockwise")(
    ScalingRecipe(
        name="blockwise",
        summary="fp32 scales of 1 x 128 elements, of weights 128 x 128 (DeepSeek-V3)",
        source="DeepSeek-AI, arXiv:2412.19437, section 3.3; Transformer Engine 2, Float8BlockScaling",
        dtype="fp8",
        format="fp8",
        scale_block=128,
        scale_bytes=4.0,
        launch={
            "megatron-lm": (("--fp8-format", "e4m3"), ("--fp8-recipe", "blockwise")),
        },
    )
)
