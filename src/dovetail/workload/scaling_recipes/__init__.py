"""Scaling recipes: how tensors become narrow enough for 8-bit and 4-bit products, and what that moves and keeps.

A product with a weight runs narrow forward and in both gradients; attention, router, embedding and head stay as they
are stored. What a product reads is quantised by rows for one product and by columns for another, in one kernel that
writes both. Saving a file here is all it takes: time, memory, launch texts and the listing of methods read the entry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.registry import Registry, holding

NUM_COPIES = 2  # of what a product reads: by rows, and by columns for the weight's gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRecipe:
    """How a tensor is scaled on its way to `dtype`, the one that products are taken in.

    `scale_block` elements of a row share one scale of `scale_bytes`; 0: all elements of a tensor share one.
    `num_sweeps`: times that a tensor is read for its largest element before it can be cast. `is_grouped`: what all
    experts of a device read is cast by one kernel, else that of each by its own. `is_norm_fused`: a norm writes its
    output narrow at once. `format`: what the chip's tensor units must multiply, a dtype, or blocks with their scales.
    `launch`: the settings of frameworks, by their names in `report.launchers`; one that is not there has none.
    """

    name: str
    summary: str
    source: str
    dtype: str
    format: str
    scale_block: int = 0
    scale_bytes: float = 0.0
    num_sweeps: int = 0
    is_grouped: bool = False
    is_norm_fused: bool = False
    aliases: tuple[str, ...] = ()
    launch: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, hash=False)

    @property
    def element_bytes(self) -> float:
        """Of one element as a product reads it, its share of a scale included."""
        share_bytes = self.scale_bytes / self.scale_block if self.scale_block else 0.0
        return ELEMENT_BYTES[self.dtype] + share_bytes

    @property
    def written_bytes(self) -> float:
        """Of one element that is quantised: both copies."""
        return NUM_COPIES * self.element_bytes


ELEMENT_BYTES = {"fp8": 1.0, "fp4": 0.5}  # of elements alone
BLOCK_FORMATS = ("mxfp8", "nvfp4")  # formats whose blocks the tensor units scale themselves
OLD_SWITCH: Mapping[object, str] = {True: "current", False: ""}  # as precisions of 0.1 are kept
DEFAULTS = {"fp8": "delayed", "fp4": "nvfp4"}  # of a dtype where no recipe is named

scaling_recipes: Registry[ScalingRecipe] = Registry(
    "scaling recipe", __name__, check=holding("scaling recipe", ScalingRecipe)
)


def recipe_named(name: str) -> ScalingRecipe:
    """The recipe of this name or alias."""
    for _, recipe in scaling_recipes.items():
        if name == recipe.name or name in recipe.aliases:
            return recipe
    known = tuple(scaling_recipes.names())
    raise InvalidInput(
        f"no scaling recipe is named {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}", "recipe"
    )


def is_recipe(name: str) -> bool:
    """Whether `name` is that of a recipe, or an alias."""
    return any(name == recipe.name or name in recipe.aliases for _, recipe in scaling_recipes.items())


def check_format(recipe: ScalingRecipe, chip: str, vendor: str, dtypes: Collection[str]) -> None:
    """Raises `NotModelled` where a chip that multiplies in `dtypes` has no tensor units for the recipe.

    Blocks are scaled by units that multiply 4-bit numbers too: NVIDIA's since Blackwell (PTX ISA 8.6, tcgen05.mma
    .block_scale), AMD's since CDNA 4. Blocks of 16 with scales of e4m3 are NVIDIA's alone.
    """
    has_blocks = "fp4" in dtypes
    if recipe.format == "mxfp8" and not has_blocks:
        others = "delayed, current or blockwise" if "fp8" in dtypes else "a wider dtype"
        raise NotModelled(f"{chip} does not multiply mxfp8; use {others}", "recipe")
    if recipe.format == "nvfp4" and not (has_blocks and vendor == "NVIDIA"):
        others = "mxfp8" if has_blocks else "fp8" if "fp8" in dtypes else "bf16"
        raise NotModelled(f"{chip} does not multiply nvfp4; compute in {others}", "recipe")
    if recipe.dtype not in dtypes:
        raise NotModelled(
            f"{chip} has no rate for {recipe.dtype}, which the recipe {recipe.name} computes in", "recipe"
        )
