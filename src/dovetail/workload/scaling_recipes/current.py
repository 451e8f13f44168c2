"""Current scaling: one scale per tensor, from its own largest element."""

from __future__ import annotations

from dovetail.workload.scaling_recipes import ScalingRecipe, scaling_recipes

# Three kernels: the largest element, the scale from it, and the cast, which writes rows and columns.
scaling_recipes.register("current")(
    ScalingRecipe(
        name="current",
        summary="one scale per tensor, from its own maximum: it is read twice",
        source="Transformer Engine 2, Float8CurrentScaling; torchao 0.8, float8 tensorwise",
        dtype="fp8",
        format="fp8",
        num_sweeps=1,
        aliases=("tensorwise",),
        launch={
            "megatron-lm": (("--fp8-format", "hybrid"), ("--fp8-recipe", "tensorwise")),
            "torchtitan": (("recipe_name", "tensorwise"),),
        },
    )
)
